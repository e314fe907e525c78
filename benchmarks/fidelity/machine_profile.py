"""The profile of this machine: two sittings of `lobra profile`, one before the steps and one after, made one table.

Whatever else the machine does may change between profile and steps; half of the repeats before and half after meet it
on average, and how far the sittings are apart says how much it changed. No step goes into either.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.samples import Samples, read_samples
from experiments.profile import NAME, profile, write_samples
from experiments.schema import Profile


def sitting(config: Profile, folder: Path) -> Path:
    """One sitting; its table."""
    profile(config, folder)
    return folder / NAME


def joined(tables: Sequence[Path], path: Path) -> Samples:
    """One table of several sittings of the same grid; repeats are counted on."""
    sittings = [_rows(table) for table in tables]
    counts = [int(rows[0]["repeats"]) for rows in sittings]
    whole: list[dict[str, Any]] = []
    for number, rows in enumerate(sittings):
        before = sum(counts[:number])
        whole += [row | {"repeat": before + int(row["repeat"]), "repeats": sum(counts)} for row in rows]
    write_samples(path, whole)
    return read_samples(path)


def drift(first: Path, second: Path) -> float:
    """The second sitting's times as a multiple of the first's: the median over points."""
    one, other = (
        {(each.tp, each.recompute, each.crowded, each.tokens, each.squares, each.runs): each.seconds for each in timed}
        for timed in (read_samples(first).timed, read_samples(second).timed)
    )
    return float(np.median([other[point] / one[point] for point in one if point in other]))


def _rows(table: Path) -> list[dict[str, Any]]:
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
