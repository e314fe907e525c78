"""JSON lines of text, read as people really write them: BOM, CRLF and blank lines are fine, lines end at LF only."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lobra.errors import BadInput
from workloads.strict_yaml import nearest, show

BOM = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """One object of the file, and the physical line where it stands, counted from 1."""

    line: int
    body: dict[str, Any]


def read_records(path: Path, owner: str) -> Iterator[Record]:
    """The objects of the file, blank lines skipped; BadInput names owner, file and physical line of a broken one."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadInput(f"{owner}: {path} cannot be read ({error.strerror}); give the path of a JSONL file") from None
    with file:
        for line, raw in enumerate(file, 1):  # bytes split at LF alone: U+2028 in a string does not end a record
            content = (raw.removeprefix(BOM) if line == 1 else raw).strip()
            if content:
                yield Record(line, _object(content, f"{owner}: {path}, line {line}"))


def field_text(record: Record, field: str, where: str) -> str:
    """A field that must be text; `where` names owner and file."""
    if field not in record.body:
        raise BadInput(f"{where}, line {record.line}: there is no field '{field}'; {nearest(field, record.body)}")
    text = record.body[field]
    if not isinstance(text, str):
        raise BadInput(f"{where}, line {record.line}: field '{field}' is {show(text)}; it must be text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput(f"{where}, line {record.line}: field '{field}' holds half a character (a lone surrogate)")
    return text


def _object(content: bytes, where: str) -> dict[str, Any]:
    try:
        body = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(f"{where}: not UTF-8 text (byte {error.start} of the line)") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: not JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise BadInput(f"{where}: not readable JSON: {error}") from None
    except RecursionError:
        raise BadInput(f"{where}: not readable JSON: it is nested too deeply") from None
    if not isinstance(body, dict):
        raise BadInput(f"{where}: expected an object, got {show(body)}")
    return body
