"""The table of a profile, samples.csv: a row for every time that a micro-batch was timed, with where that was.

The reader refuses what no fit could repair, with line, column and reason: a value that is no number or not above zero,
a tp with a single number of rows (its fixed part and its part a token cannot be told apart), times that are off by a
factor of a thousand. It warns of what a reader should know: noise, few points, one length only.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from costmodel.profile import Profile
from lobra.errors import BadInput

WHOLE = (
    "tp", "recompute", "crowded", "rows", "width", "sequences", "tokens", "longest", "squares", "runs", "tenants",
    "repeat",
)  # fmt: skip
SECONDS = ("forward_seconds", "backward_seconds", "rest_seconds")
PLACE = (
    "model", "layers", "layer_parameters", "parameters", "dtype", "hardware", "device", "cores", "ranks", "threads",
    "memory_gib", "torch", "python", "lobra", "date", "repeats",
)  # fmt: skip
COLUMNS = (*WHOLE, *SECONDS, "saved_bytes", *PLACE)
DEPLOY = "deploy_seconds"  # of the deployment that a row was timed under; 0, or no such column: not timed
WRITTEN = (*COLUMNS, DEPLOY)
COUNTED = ("layers", "layer_parameters", "parameters", "cores", "ranks", "threads", "repeats")
ZERO_ALLOWED = ("recompute", "crowded", "rest_seconds", "saved_bytes", "repeat", DEPLOY)
CONSTANT = tuple(column for column in PLACE if column != "date")

# Operations a second that are believed, of a core or of a GPU: a core of 2026 peaks near 2e11, a GPU near 5e15; at
# the lower end a profile's largest micro-batch would take a hundred times what small models were measured to take.
BELIEVED = {"cpu": (5e7, 2e11), "cuda": (2e10, 5e15)}
LEAST_POINTS = 4
NOISY = 0.25  # relative spread of repeats


@dataclass(frozen=True, slots=True)
class Timed:
    """One micro-batch, its repeats joined: medians in seconds."""

    tp: int
    recompute: int
    crowded: bool
    rows: int
    tokens: int
    longest: int
    squares: int
    runs: int
    forward: float
    backward: float
    rest: float
    saved_bytes: int
    spread: float  # of the repeats, standard deviation over mean
    repeated: tuple[float, ...] = ()  # seconds of every repeat, forward plus backward
    tenants: int = 1  # whose adapters it updates
    deploy: float = 0.0  # seconds of the deployment that it was timed under; 0: not timed

    @property
    def seconds(self) -> float:
        """Forward plus backward."""
        return self.forward + self.backward


@dataclass(frozen=True, slots=True)
class Samples:
    """A profile that was read."""

    timed: tuple[Timed, ...]
    place: dict[str, str]  # of the columns PLACE
    warnings: tuple[str, ...]

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return int(self.place["layers"])

    @property
    def noise(self) -> float:
        """Median relative spread of the repeats."""
        return median(each.spread for each in self.timed)

    def alone(self, tp: int, recompute: int = 0) -> list[Timed]:
        """Points that were timed while all other ranks were idle."""
        return [each for each in self.timed if (each.tp, each.recompute, each.crowded) == (tp, recompute, False)]

    def crowded(self, tp: int) -> list[Timed]:
        """Points that were timed on all ranks at once."""
        return [each for each in self.timed if (each.tp, each.recompute, each.crowded) == (tp, 0, True)]

    @property
    def tps(self) -> tuple[int, ...]:
        """Tensor parallelism, ascending."""
        return tuple(sorted({each.tp for each in self.timed if not each.crowded}))

    def profile(self, tp: int, what: Literal["seconds", "forward", "backward"] = "seconds") -> Profile:
        """The points of one tp as times of a layer: forward plus backward, or one of them."""
        points = self.alone(tp)
        columns = [
            np.array([getattr(each, name) for each in points], np.float64)
            for name in ("longest", "tokens", "squares", what, "runs", "rows")
        ]
        return Profile(tp, columns[0], columns[1], columns[2], columns[3] / self.layers, columns[4], columns[5])


def is_samples(path: Path) -> bool:
    """Whether the file begins like such a table."""
    try:
        with path.open(encoding="utf-8") as file:
            return tuple(file.readline().strip().split(",")) in (COLUMNS, WRITTEN)
    except (OSError, UnicodeDecodeError):
        return False


def read_samples(path: Path) -> Samples:
    """The table; BadInput names line and column of a bad value, or what is wrong with the whole."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) not in (COLUMNS, WRITTEN):
                raise BadInput(f"samples {path}: its columns are not those of `lobra profile`: {', '.join(COLUMNS)}")
            rows = [_checked(path, reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"samples {path}: it cannot be read ({error})") from None
    if not rows:
        raise BadInput(f"samples {path}: it has no rows; profile again")
    place = {column: str(rows[0][column]) for column in PLACE}
    for column in CONSTANT:
        if len({row[column] for row in rows}) > 1:
            raise BadInput(f"samples {path}: {column} differs between rows; fit tables of different places apart")
    samples = Samples(_joined(rows), place, ())
    return Samples(samples.timed, place, tuple(_warnings(path, samples)))


def _checked(path: Path, line: int, row: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {DEPLOY: 0.0} | row
    for column in (*WHOLE, *SECONDS, "saved_bytes", *COUNTED, DEPLOY):
        try:
            value = float(values[column])
        except (TypeError, ValueError):
            value = float("nan")
        least = 0.0 if column in ZERO_ALLOWED else np.nextafter(0.0, 1.0)
        if not least <= value < float("inf"):
            wanted = "a number, 0 or more" if column in ZERO_ALLOWED else "a number above 0"
            raise BadInput(f"samples {path}, line {line}: {column} is {values[column]!r}; it must be {wanted}")
        values[column] = value if column in (*SECONDS, DEPLOY) else int(value)
    if values["device"] not in BELIEVED:
        raise BadInput(f"samples {path}, line {line}: device is {row['device']!r}; it must be {' or '.join(BELIEVED)}")
    return values


def _joined(rows: Sequence[dict[str, Any]]) -> tuple[Timed, ...]:
    """Repeats of a point joined; points in the order of their first row."""
    groups: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[column] for column in WHOLE if column != "repeat")
        groups.setdefault(key, []).append(row)
    return tuple(_timed(group) for group in groups.values())


def _timed(group: Sequence[dict[str, Any]]) -> Timed:
    first = group[0]
    totals = np.array([row["forward_seconds"] + row["backward_seconds"] for row in group])
    forward, backward, rest = (median(row[column] for row in group) for column in SECONDS)
    return Timed(
        first["tp"],
        first["recompute"],
        bool(first["crowded"]),
        first["rows"],
        first["tokens"],
        first["longest"],
        first["squares"],
        first["runs"],
        forward,
        backward,
        rest,
        first["saved_bytes"],
        float(totals.std(ddof=1) / totals.mean()) if len(totals) > 1 else 0.0,
        tuple(totals.tolist()),
        first["tenants"],
        first[DEPLOY],
    )


def _warnings(path: Path, samples: Samples) -> list[str]:
    """What a reader must know; BadInput for what cannot be fitted."""
    told = []
    if not samples.tps:
        raise BadInput(f"samples {path}: no point was timed alone (crowded 0); profile again")
    for tp in samples.tps:
        points = samples.alone(tp)
        _refuse_unit(path, samples, tp, points)
        if len(points) < LEAST_POINTS:
            raise BadInput(f"samples {path}: tp {tp} has {len(points)} points; at least {LEAST_POINTS} are needed")
        if len({each.rows for each in points}) == 1:
            raise BadInput(
                f"samples {path}: tp {tp} was timed with {points[0].rows} rows only; what a micro-batch costs and what "
                "a token costs cannot be told apart: profile with several numbers of rows"
            )
        if len({each.longest for each in points}) == 1:
            told.append(f"tp {tp} was timed at one length only; the part of attention is a guess")
    if int(samples.place["repeats"]) < 2:
        told.append("every point was timed once; nobody knows the noise")
    if samples.noise > NOISY:
        told.append(f"repeats differ by {samples.noise:.0%} of their mean: the machine was busy with something else")
    return told


def _refuse_unit(path: Path, samples: Samples, tp: int, points: Sequence[Timed]) -> None:
    """Refuse times in another unit: no device computes so fast or so slowly."""
    device, parameters = samples.place["device"], float(samples.place["layer_parameters"])
    largest = max(points, key=lambda each: each.tokens)
    speed = 4 * parameters * samples.layers * largest.tokens / (largest.seconds * tp)
    low, high = BELIEVED[device]
    if not low <= speed <= high * (int(samples.place["threads"]) if device == "cpu" else 1):
        raise BadInput(
            f"samples {path}: tp {tp} computes {speed:.1e} operations a second and rank, which no {device} does; "
            "are the seconds off by a factor of a thousand?"
        )
