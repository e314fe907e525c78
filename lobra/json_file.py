"""A small JSON file that holds one object: a manifest or a configuration."""

from pathlib import Path
from typing import Any

from lobra.codec import parse
from lobra.errors import BadInput

LARGEST_FILE = 10_000_000  # bytes: the largest index of a published model has some 100,000


def read_object(path: Path) -> dict[str, Any]:
    """The object in this file, read strictly; BadInput names the file and what is wrong with it."""
    try:
        size = path.stat().st_size
        if size <= LARGEST_FILE:
            body = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text (byte {error.start})") from None
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    if size > LARGEST_FILE:
        raise BadInput(f"{path}: it has {size} bytes, at most {LARGEST_FILE} are read")
    if not isinstance(body, dict):
        raise BadInput(f"{path}: expected an object")
    return body
