"""JSON lines on disk: appended one by one, read back strictly, ended by a line `end`."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lobra import codec
from lobra.errors import BadInput

END = "end"


class Writer:
    """Appends nouns to a new file; `with` it, so that an unbroken stream gets its last line `end`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def append(self, noun: Any) -> None:
        """One more line, visible to a follower at once."""
        self._file.write(codec.encode(noun) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.write(END + "\n")
        self._file.close()


def read(path: Path, *, complete: bool = True) -> Iterator[Any]:
    """The nouns of a finished stream; BadInput names the file and line of what is wrong or missing."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the path of a stream") from None
    with file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8")
                if line == END + "\n":
                    return
                yield codec.decode(line)
            except (BadInput, UnicodeDecodeError) as error:
                raise BadInput(f"{path}, line {number}: {error}") from None
    if complete:
        raise BadInput(f"{path}: it has no last line '{END}': the run that wrote it did not finish")
