"""Measured layer times, and the form that is fitted to them."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from lobra.batch import Array


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured layer times of one tp; columns of [n]."""

    tp: int
    lengths: Array  # float64, tokens of a sequence
    tokens: Array  # float64, tokens of the micro-batch
    squares: Array  # float64, sum of squared lengths
    seconds: Array  # float64, forward plus backward
    runs: Array | None = None  # float64, adapter runs; None: one each


@dataclass(frozen=True, slots=True)
class Fit:
    """max(floor, fixed + run R + token N + square S2) seconds for one tp."""

    floor: float
    fixed: float
    token: float
    square: float
    run: float = 0.0

    def seconds(self, profile: Profile) -> Array:
        """What the form says for every point of the profile."""
        runs = 0.0 if profile.runs is None else self.run * profile.runs
        line = self.fixed + runs + self.token * profile.tokens + self.square * profile.squares
        return np.maximum(self.floor, line)

    def errors(self, profile: Profile) -> Array:
        """Relative errors, signed."""
        return self.seconds(profile) / profile.seconds - 1


def fit_profile(profile: Profile) -> Fit:
    """The floor form with the least relative squared error that the search finds."""
    order = np.lexsort((profile.squares, profile.tokens))
    inverse = 1 / profile.seconds[order]
    columns = [np.ones(len(order)), profile.tokens[order], profile.squares[order]]
    if profile.runs is not None and len(np.unique(profile.runs)) > 1:
        columns.append(profile.runs[order])
    design = np.stack(columns, axis=1) * inverse[:, None]
    best, least = Fit(0.0, 0.0, 0.0, 0.0), float("inf")
    for low in range(len(order) - len(columns) + 1):  # the smallest `low` micro-batches lie on the floor
        floor = float(inverse[:low].sum() / (inverse[:low] ** 2).sum()) if low else 0.0
        scale = design[low:].max(axis=0)
        solution, _ = nnls(design[low:] / scale, np.ones(len(order) - low))
        candidate = Fit(floor, *(float(value) for value in solution / scale))
        error = float((candidate.errors(profile) ** 2).sum())
        if error < least:
            best, least = candidate, error
    return best
