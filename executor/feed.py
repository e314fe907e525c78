"""JSON lines between a launcher and its ranks: one side appends, the other follows while they come."""

import os
from pathlib import Path
from typing import Any, Self

from lobra import codec
from lobra.errors import BadInput
from lobra.stream import END

DIRECTIVES = "directives.jsonl"
TRACE = "trace.jsonl"


class Appender:
    """Appends whole lines to a file, each in a single write; durable lines are on the disk when append returns."""

    def __init__(self, path: Path, *, durable: bool, fresh: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_TRUNC if fresh else 0)
        self._file = os.open(path, flags, 0o644)
        self._durable = durable

    def append(self, noun: Any) -> None:
        """One more line."""
        self._write(codec.encode(noun))

    def finish(self) -> None:
        """The line that says that nothing follows."""
        self._write(END)

    def _write(self, line: str) -> None:
        data = (line + "\n").encode()
        while data:
            data = data[os.write(self._file, data) :]
        if self._durable:
            os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Follower:
    """Reads lines as they become whole; `ended` once the line `end` was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self._rest = b""
        self._file: Any = None
        self.ended = False

    def line(self) -> bytes | None:
        """The next whole line without its end; None while there is none, or none any more."""
        if self.ended:
            return None
        if not self.pending():
            return None
        line, self._rest = self._rest[:-1], b""
        self._number += 1
        if line == END.encode():
            self.ended = True
            return None
        return line

    def noun(self) -> Any:
        """The next noun, or None; BadInput names file and line of what is wrong."""
        line = self.line()
        return None if line is None else self.decoded(line)

    def decoded(self, line: bytes) -> Any:
        """The noun in the line read last."""
        try:
            return codec.decode(line.decode())
        except (BadInput, UnicodeDecodeError) as error:
            raise BadInput(f"{self._path}, line {self._number}: {error}") from None

    def _read(self) -> bytes:
        if self._file is None:
            if not self._path.exists():
                return b""
            self._file = self._path.open("rb")
        data: bytes = self._file.readline()
        return data

    def pending(self) -> bool:
        """Whether there is a whole line that was not read yet."""
        if not self._rest.endswith(b"\n"):
            self._rest += self._read()
        return self._rest.endswith(b"\n")

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
