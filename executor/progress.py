"""Where a rank stands, told through a shared page: it can be read after the rank was killed."""

import mmap
from pathlib import Path

_SIZE = 256  # bytes; a phase is short
STARTING = "start-up"


class Progress:
    """This rank's page."""

    def __init__(self, folder: Path, rank: int) -> None:
        path = progress_path(folder, rank)
        path.write_bytes(b"\0" * _SIZE)
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _SIZE)

    def write(self, phase: str) -> None:
        """Say what is being done."""
        self._page[:] = phase.encode()[: _SIZE - 1].ljust(_SIZE, b"\0")


def read_progress(folder: Path, rank: int) -> str:
    """What a rank said last."""
    try:
        text = progress_path(folder, rank).read_bytes().rstrip(b"\0").decode(errors="replace")
    except OSError:
        return STARTING
    return text or STARTING


def progress_path(folder: Path, rank: int) -> Path:
    """The file behind a rank's page."""
    return folder / f"rank-{rank}.progress"
