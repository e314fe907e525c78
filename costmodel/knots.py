"""The simulator's view of a layer: seconds that bend at knots in N, as monotone as the floor form and finer.

A layer of a micro-batch of N tokens, S2 = sum of squared attended lengths, R adapter runs and B rows takes

    height(N) + run R + row B + square S2   seconds,

where height goes through a fixed part at N = 0 and rises between knots by a slope of its own, never falling. It is not
convex, so no linear program can hold it; that is what the floor form is for. Knots stand where kernels change their
gait: at powers of two up to 4,096 tokens, and only where measurements lie on both sides.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from scipy.optimize import nnls

from costmodel.profile import Profile
from costmodel.sources import field
from lobra.batch import Array
from lobra.errors import BadInput

KNOTS = (128, 256, 512, 1024, 2048, 4096)  # tokens
BETWEEN, BEYOND = 1, 2  # different numbers of tokens since the knot before, and beyond the last one


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of one layer, in one direction or both; BadInput for one that could fall or be negative."""

    knots: tuple[float, ...]  # tokens, ascending from 0
    heights: tuple[float, ...]  # seconds at each knot
    slopes: tuple[float, ...]  # seconds a token from each knot on
    run: float = 0.0
    row: float = 0.0
    square: float = 0.0

    def __post_init__(self) -> None:
        """Check that it neither falls nor is negative anywhere."""
        numbers = (*self.knots, *self.heights, *self.slopes, self.run, self.row, self.square)
        if not all(isfinite(number) and number >= 0 for number in numbers):
            raise BadInput(f"curve: {numbers} holds a number that is negative or none at all; fit it again")
        if len({len(self.knots), len(self.heights), len(self.slopes)}) != 1 or self.knots[:1] != (0,):
            raise BadInput("curve: knots begin at 0, and each has one height and one slope; fit it again")
        if any(high <= low for low, high in zip(self.knots, self.knots[1:], strict=False)):
            raise BadInput(f"curve: knots {self.knots} do not ascend; fit it again")
        if any(high < low for low, high in zip(self.heights, self.heights[1:], strict=False)):
            raise BadInput(f"curve: heights {self.heights} fall; more tokens must not cost less; fit it again")

    def seconds(self, runs: float, rows: float, tokens: float, squares: float) -> float:
        """Seconds of a micro-batch."""
        place = bisect_right(self.knots, tokens) - 1
        height = self.heights[place] + self.slopes[place] * (tokens - self.knots[place])
        return height + self.run * runs + self.row * rows + self.square * squares

    def of(self, profile: Profile) -> Array:
        """Seconds of every point of the profile."""
        place = np.searchsorted(self.knots, profile.tokens, side="right") - 1
        heights, slopes, knots = (np.asarray(values)[place] for values in (self.heights, self.slopes, self.knots))
        runs = 0.0 if profile.runs is None else self.run * profile.runs
        rows = 0.0 if profile.rows is None else self.row * profile.rows
        whole: Array = heights + slopes * (profile.tokens - knots) + runs + rows + self.square * profile.squares
        return whole

    def errors(self, profile: Profile) -> Array:
        """Relative errors, signed."""
        return self.of(profile) / profile.seconds - 1

    def scaled(self, linear: float, attention: float) -> "Curve":
        """That share of it: of attention, and of all the rest."""
        return Curve(
            self.knots,
            tuple(linear * height for height in self.heights),
            tuple(linear * slope for slope in self.slopes),
            linear * self.run,
            linear * self.row,
            attention * self.square,
        )


def fit_curve(profile: Profile, knots: Sequence[float] = KNOTS) -> Curve:
    """The curve of least relative squared error, every coefficient >= 0."""
    kept = useful_knots(profile.tokens, knots)
    rises = [np.clip(profile.tokens, low, high) - low for low, high in zip(kept, [*kept[1:], np.inf], strict=True)]
    columns = [np.ones_like(profile.tokens), *rises, profile.squares]
    extra = [
        values if values is not None and len(np.unique(values)) > 1 else None for values in (profile.runs, profile.rows)
    ]
    columns += [values for values in extra if values is not None]
    design = np.stack(columns, axis=1) / profile.seconds[:, None]
    scale = np.maximum(design.max(axis=0), np.finfo(np.float64).tiny)
    solution = nnls(design / scale, np.ones(len(design)))[0] / scale
    fixed, slopes, square = solution[0], solution[1 : 1 + len(kept)], solution[1 + len(kept)]
    heights = fixed + np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(kept))])
    rest = iter(solution[2 + len(kept) :])
    run, row = (0.0 if values is None else float(next(rest)) for values in extra)
    return Curve(tuple(kept), tuple(map(float, heights)), tuple(map(float, slopes)), run, row, float(square))


def useful_knots(tokens: Array, knots: Sequence[float]) -> list[float]:
    """0 and those knots with enough different numbers of tokens since the one before, and beyond."""
    known, kept = np.unique(tokens), [0.0]
    for knot in knots:
        since = np.sum((known > kept[-1]) & (known <= knot))
        if since >= BETWEEN and np.sum(known > knot) >= BEYOND:
            kept.append(float(knot))
    return kept


def curve_body(curve: Curve) -> dict[str, Any]:
    """A curve as it stands in a source file."""
    return {
        "knots": [int(knot) for knot in curve.knots],
        "height_seconds": [_short(height) for height in curve.heights],
        "token_seconds": [_short(slope) for slope in curve.slopes],
        "run_seconds": _short(curve.run),
        "row_seconds": _short(curve.row),
        "square_seconds": _short(curve.square),
    }


def read_curve(body: Mapping[str, Any]) -> Curve:
    """The curve of a source file; BadInput where something is missing or could fall."""
    knots, heights, slopes = (
        tuple(map(float, field(body, name))) for name in ("knots", "height_seconds", "token_seconds")
    )
    run, row, square = (float(field(body, name)) for name in ("run_seconds", "row_seconds", "square_seconds"))
    return Curve(knots, heights, slopes, run, row, square)


def _short(value: float) -> float:
    return float(f"{value:.8g}")
