"""From a prior to an executor: alpha and beta of at least twenty measured micro-batches, and an honest interval.

A prior (kernel tables, another machine's fit, a roofline) says p seconds; the executor takes alpha p + beta. Alpha is
what all its kernels are slower by, beta what it pays once a micro-batch (Python, launches). Both come from one part of
the measurements; the absolute log residuals of the other part give the half-width of the interval by split conformal
prediction (Lei et al. 2018): the k-th smallest of n, k = ceil((n + 1) level), which covers a further exchangeable
measurement with probability >= level whatever the form's errors look like. Widths never fall below what repeated
measurements of one and the same layer differ by.

Groups, such as (model, tp), are not exchangeable with one another: calibrate and judge them apart (`within_groups`), or
ask what happens to a group that nobody measured (`across_groups`).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log

import numpy as np
from scipy.optimize import nnls
from scipy.stats import binomtest

from lobra.batch import Array
from lobra.errors import BadInput

LEVEL = 0.90
LEAST = 20  # measured micro-batches
SAME_LAYER_SECONDS = (12.5e-3, 13.9e-3, 14.6e-3)  # 7B, tp 1, 2,048 tokens: the authors of LobRA, three times
LEAST_HALF_WIDTH = log(SAME_LAYER_SECONDS[-1] / SAME_LAYER_SECONDS[0]) / 2  # of a logarithm: 7.8 %


@dataclass(frozen=True, slots=True)
class Calibration:
    """seconds = alpha * prior + beta; the interval is that times exp(+-half_width)."""

    alpha: float
    beta: float  # seconds
    half_width: float  # of the logarithm
    level: float
    fitted: int  # measurements behind alpha and beta
    held_out: int  # measurements behind the half-width

    def seconds(self, prior: Array) -> Array:
        """Calibrated seconds of prior ones."""
        told: Array = self.alpha * np.asarray(prior, np.float64) + self.beta
        return told

    def interval(self, prior: Array) -> tuple[Array, Array]:
        """Lower and upper seconds."""
        middle = self.seconds(prior)
        return middle * exp(-self.half_width), middle * exp(self.half_width)

    def covers(self, prior: Array, measured: Array) -> Array:
        """Whether each measurement lies in its interval; bool [n]."""
        inside: Array = np.abs(np.log(measured / self.seconds(prior))) <= self.half_width
        return inside


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often measurements lay in their intervals; holds: an exact binomial test does not reject the target."""

    covered: int
    n: int
    target: float
    p_value: float
    half_width: float  # median of all measurements', of the logarithm

    @property
    def share(self) -> float:
        """Part that was covered."""
        return self.covered / self.n

    @property
    def holds(self) -> bool:
        """Not rejected at 5 %."""
        return self.p_value > 0.05


def scale_and_start(prior: Array, measured: Array) -> tuple[float, float]:
    """Alpha and beta, both >= 0, with the least relative squared error."""
    solution, _ = nnls(np.stack([prior, np.full(len(prior), prior.mean())], 1) / measured[:, None], np.ones(len(prior)))
    alpha, beta = float(solution[0]), float(solution[1] * prior.mean())
    if alpha == 0 and beta == 0:
        raise BadInput("calibration: the measurements have nothing in common with the prior; profile again")
    return alpha, beta


def half_width(residuals: Array, level: float = LEVEL, least: float = 0.0) -> float:
    """The conformal quantile of absolute residuals; BadInput where there are too few for this level."""
    rank = ceil((len(residuals) + 1) * level - 1e-9)
    if not 0 < level < 1 or rank > len(residuals):
        needed = ceil(level / (1 - level) - 1e-9) if 0 < level < 1 else "a level in (0, 1) and any"
        raise BadInput(f"calibration: {len(residuals)} held-out measurements at level {level}; it takes {needed}")
    return max(least, float(np.sort(np.abs(residuals))[rank - 1]))


def calibrate(
    prior: Array, measured: Array, *, level: float = LEVEL, least: float = 0.0, seed: int = 0, fit: bool = True
) -> Calibration:
    """Seconds [n] of a prior and of the executor; half of them, drawn by the seed, gives alpha and beta.

    fit=False: the prior stands as it is, and every measurement counts for the half-width.
    """
    prior, measured = _checked(prior, measured)
    if len(prior) < LEAST:
        raise BadInput(f"calibration: {len(prior)} measured micro-batches; at least {LEAST} are needed")
    if not fit:
        residuals = np.log(measured / prior)
        return Calibration(1.0, 0.0, half_width(residuals, level, least), level, 0, len(prior))
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(len(prior))
    first, second = np.sort(order[: len(prior) // 2]), np.sort(order[len(prior) // 2 :])
    alpha, beta = scale_and_start(prior[first], measured[first])
    found = Calibration(alpha, beta, 0.0, level, len(first), len(second))
    residuals = np.log(measured[second] / found.seconds(prior[second]))
    return replace(found, half_width=half_width(residuals, level, least))


def exact_coverage(inside: Array, half_widths: Array, target: float = LEVEL) -> Coverage:
    """The two-sided exact binomial test of so many covered measurements.

    It takes the half-widths as given: where few measurements made them, it rejects somewhat more often than 5 %.
    """
    n, covered = len(inside), int(np.sum(inside))
    if n == 0:
        raise BadInput("coverage: there is no measurement to judge")
    p_value = float(binomtest(covered, n, target).pvalue)
    return Coverage(covered, n, target, p_value, float(np.median(half_widths)))


def within_groups(
    predicted: Array,
    measured: Array,
    groups: Sequence[Hashable],
    *,
    target: float = LEVEL,
    least: float = 0.0,
    seed: int = 0,
) -> Coverage:
    """Each group's half-width from one half of its points, judged on the other half; small groups share one.

    predicted must be held-out predictions [n]. A group with fewer points than a half-width needs joins the others of
    its kind in a common group.
    """
    predicted, measured = _checked(predicted, measured)
    residuals, members = np.abs(np.log(measured / predicted)), _members(groups)
    needed = 2 * ceil(target / (1 - target) - 1e-9)
    small = [position for part in members if len(part) < needed for position in part]
    inside, widths = np.zeros(len(residuals), bool), np.zeros(len(residuals))
    judged = np.zeros(len(residuals), bool)
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    for part in [*(part for part in members if len(part) >= needed), *([small] if len(small) >= needed else [])]:
        order = generator.permutation(part)
        known, asked = order[: len(part) // 2], order[len(part) // 2 :]
        widths[asked] = half_width(residuals[known], target, least)
        inside[asked], judged[asked] = residuals[asked] <= widths[asked], True
    return exact_coverage(inside[judged], widths[judged], target)


def across_groups(
    predicted: Array, measured: Array, groups: Sequence[Hashable], *, target: float = LEVEL, least: float = 0.0
) -> Coverage:
    """Each group judged by the half-width of all the others: what a model or tp that nobody measured may expect."""
    predicted, measured = _checked(predicted, measured)
    residuals = np.abs(np.log(measured / predicted))
    inside, widths = np.zeros(len(residuals), bool), np.zeros(len(residuals))
    for part in _members(groups):
        others = np.delete(residuals, part)
        widths[part] = half_width(others, target, least)
        inside[part] = residuals[part] <= widths[part]
    return exact_coverage(inside, widths, target)


def _members(groups: Sequence[Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for position, group in enumerate(groups):
        found.setdefault(group, []).append(position)
    return list(found.values())


def _checked(prior: Array, measured: Array) -> tuple[Array, Array]:
    prior, measured = np.asarray(prior, np.float64), np.asarray(measured, np.float64)
    if prior.shape != measured.shape or prior.ndim != 1:
        raise BadInput(f"calibration: {prior.shape} prior and {measured.shape} measured seconds; give as many of each")
    for name, values in (("prior", prior), ("measured", measured)):
        if not np.all((values > 0) & (values < np.inf)):
            raise BadInput(f"calibration: {name} seconds must be finite numbers above 0")
    return prior, measured
