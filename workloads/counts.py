"""CSV files of sequence lengths: a header line, a column `tokens`, one sequence a line."""

import csv
import io
from pathlib import Path

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from workloads.table import LARGEST

COLUMN = "tokens"


def read_counts(path: Path, owner: str) -> Array:
    """The column `tokens`, int64 [n]; BadInput names owner, file and physical line of what is wrong."""
    reader = csv.reader(io.StringIO(_text(path, owner), newline=""))
    try:
        header = [name.strip() for name in next(reader, [])]
        if header.count(COLUMN) != 1:
            raise BadInput(f"{owner}: {path} must have one column '{COLUMN}'; its first line is {', '.join(header)!r}")
        column = header.index(COLUMN)
        counts = [_count(row, column, f"{owner}: {path}, line {reader.line_num}") for row in reader if any(row)]
    except csv.Error as error:
        raise BadInput(f"{owner}: {path}, line {reader.line_num}: not CSV ({error})") from None
    return np.array(counts, dtype=np.int64)


def _text(path: Path, owner: str) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{owner}: {path} cannot be read ({error.strerror}); give the path of a CSV file") from None
    except UnicodeDecodeError:
        raise BadInput(f"{owner}: {path} is not UTF-8 text; give a CSV file") from None


def _count(row: list[str], column: int, where: str) -> int:
    value = row[column].strip() if column < len(row) else ""
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and int(value) <= LARGEST):
        raise BadInput(f"{where}: {COLUMN} is {value[:40]!r}; it must be a whole number from 0 to {LARGEST}")
    return int(value)
