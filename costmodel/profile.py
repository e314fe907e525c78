"""Measured layer times, and the form that is fitted to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar, nnls

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
    rows: Array | None = None  # float64, rows of the micro-batch; None: nobody told

    def part(self, chosen: Array) -> "Profile":
        """The points that a mask [n] chooses."""
        runs, rows = (None if values is None else values[chosen] for values in (self.runs, self.rows))
        lengths, tokens, squares, seconds = (
            values[chosen] for values in (self.lengths, self.tokens, self.squares, self.seconds)
        )
        return Profile(self.tp, lengths, tokens, squares, seconds, runs, rows)


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


def fit_profile(profile: Profile, square: float | None = None) -> Fit:
    """The floor form with the least relative squared error that the search finds; square: given, not fitted."""
    order = np.lexsort((profile.squares, profile.tokens))
    inverse = 1 / profile.seconds[order]
    columns = {"fixed": np.ones(len(order)), "token": profile.tokens[order]}
    known = np.zeros(len(order)) if square is None else square * profile.squares[order] * inverse
    if square is None:
        columns["square"] = profile.squares[order]
    if profile.runs is not None and len(np.unique(profile.runs)) > 1:
        columns["run"] = profile.runs[order]
    design = np.stack(list(columns.values()), axis=1) * inverse[:, None]
    best, least = Fit(0.0, 0.0, 0.0, square or 0.0), float("inf")
    for low in range(len(order) - len(columns) + 1):  # the smallest `low` micro-batches lie on the floor
        floor = float(inverse[:low].sum() / (inverse[:low] ** 2).sum()) if low else 0.0
        scale = design[low:].max(axis=0)
        solution, _ = nnls(design[low:] / scale, 1 - known[low:])
        found = dict(zip(columns, map(float, solution / scale), strict=True))
        candidate = Fit(floor, **({"square": square or 0.0} | found))
        error = float((candidate.errors(profile) ** 2).sum())
        if error < least:
            best, least = candidate, error
    return best


def fit_tied(profiles: Sequence[Profile]) -> list[Fit]:
    """The floor form of every tp with one part of attention: square times tp is the same for all.

    Tensor parallelism divides the heads, so attention's work divides too. What one tp was measured at long lengths
    helps another to sequences that nobody timed on it.
    """

    def error(common: float) -> float:
        fits = [fit_profile(profile, common / profile.tp) for profile in profiles]
        return sum(float((fit.errors(profile) ** 2).sum()) for fit, profile in zip(fits, profiles, strict=True))

    most = max(fit_profile(profile).square * profile.tp for profile in profiles)
    if most == 0:
        return [fit_profile(profile) for profile in profiles]
    found = minimize_scalar(error, bounds=(0.0, 2 * most), method="bounded", options={"xatol": 1e-4 * most})
    return [fit_profile(profile, float(found.x) / profile.tp) for profile in profiles]
