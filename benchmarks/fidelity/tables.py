"""Reading the published tables."""

import csv
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np

from lobra.batch import Array


def read_rows(path: Path) -> list[dict[str, str]]:
    """A table with a header, plain or gzipped; FileNotFoundError where it is absent."""
    with _opened(path) as file:
        return list(csv.DictReader(file))


def present(path: Path) -> Path:
    """The path; FileNotFoundError where nothing is there."""
    path.stat()
    return path


def column(rows: list[dict[str, str]], name: str) -> Array:
    """One column [n] of numbers."""
    return np.array([float(row[name]) for row in rows])


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as packed:
            yield packed
    else:
        with path.open(encoding="utf-8", newline="") as plain:
            yield plain
