"""Quantile tables: how the shape of a real set of lengths is shipped without its rows.

A table has 201 quantiles. Their probabilities are sin(pi i / 400)^2 for i = 0..200: from 0 to 1, dense at both ends,
because the third and fourth moments live in the tails. (At equal steps the skewness of PubMedQA's 1000 counts comes
out 15 % too high; here every mean is within 0.3 % of its rows', a deviation within 2 %, a skewness within 0.12.)

`write_tables(folder, target)` makes `data/quantiles.csv` again from the files of counts named in `data/sources.yaml`.
"""

import csv
import io
from importlib.resources import files
from pathlib import Path

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from lobra.files import write_atomically
from workloads.counts import read_counts
from workloads.lengths import Empirical
from workloads.strict_yaml import nearest, read_yaml

POINTS = 201


def table_probabilities() -> Array:
    """The probabilities of a table's quantiles, float64 [POINTS]."""
    probabilities = np.round(np.sin(np.pi * np.arange(POINTS) / (2 * (POINTS - 1))) ** 2, 9)
    return np.asarray(probabilities, dtype=np.float64)


def quantile_table(tokens: Array) -> Array:
    """Quantiles of these counts at the table's probabilities, linear between rows, to 0.01 tokens; float64 [POINTS]."""
    return np.round(np.quantile(tokens, table_probabilities()), 2)


def tables_csv(folder: Path) -> str:
    """The shipped file as text, from the counts in this folder: a column of probabilities, then one a set."""
    sources = shipped_sources()
    columns = [quantile_table(read_counts(folder / body["counts"], name)) for name, body in sources.items()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["probability", *sources])
    for probability, *row in zip(table_probabilities(), *columns, strict=True):
        writer.writerow([f"{probability:.9f}", *(f"{value:.2f}" for value in row)])
    return text.getvalue()


def write_tables(folder: Path, target: Path) -> None:
    """Make the shipped file again."""
    write_atomically(target, tables_csv(folder))


def shipped_sources() -> dict[str, dict[str, str]]:
    """Where each shipped table comes from: counts, source, tokenizer, licence, by name of the table."""
    text = files("workloads").joinpath("data/sources.yaml").read_bytes()
    sources: dict[str, dict[str, str]] = read_yaml(text, "sources.yaml")["tables"]
    return sources


def shipped_table(name: str) -> Empirical:
    """A shipped table as a law of lengths; BadInput names the nearest where there is none."""
    text = files("workloads").joinpath("data/quantiles.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    if name not in header[1:]:
        raise BadInput(f"there is no length table {name!r}; {nearest(name, header[1:])}")
    column = header.index(name)
    return Empirical(tuple(float(row[0]) for row in rows), tuple(float(row[column]) for row in rows))
