"""The profile of this machine: sittings of `lobra profile` before, between and after the rounds, made one table.

Whatever else the machine does may change between profile and steps. Sittings that take turns with the rounds meet it
as the rounds do, medians over them leave out a sitting that was disturbed, and how far they are apart says how much
the machine changed. No step goes into any of them.
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


def drift(tables: Sequence[Path]) -> list[float]:
    """Every sitting's times as a multiple of the medians over all sittings: the median over points; one a sitting."""
    sittings = [
        {(each.tp, each.recompute, each.crowded, each.tokens, each.squares, each.runs): each.seconds for each in timed}
        for timed in (read_samples(table).timed for table in tables)
    ]
    points = set.intersection(*(set(each) for each in sittings))
    usual = {point: float(np.median([each[point] for each in sittings])) for point in points}
    return [float(np.median([each[point] / usual[point] for point in points])) for each in sittings]


def _rows(table: Path) -> list[dict[str, Any]]:
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
