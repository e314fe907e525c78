"""Folders that are either whole or absent: filled under a hidden name, flushed to disk, renamed once."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lobra.errors import BadInput


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; at the end of the block all its files are on disk, and it gets its name.

    A crash at any moment leaves nothing under that name. BadInput where something stands there already.
    """
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield hidden
        for file in sorted(hidden.rglob("*")):
            if not file.is_dir():
                file.chmod(0o644)
            flush(file)
        hidden.chmod(0o755)
        flush(hidden)
        refuse_existing(path)
        hidden.rename(path)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    flush(path.parent)


def refuse_existing(path: Path) -> None:
    """BadInput where a file, folder or link has this name: nothing is ever written over or through one."""
    if path.is_symlink() or path.exists():
        raise BadInput(f"{path}: it exists already; name a new folder, or remove the old one first")


def flush(path: Path) -> None:
    """Make a file's content, or a folder's list of names, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
