"""Families of sequence lengths: where the probability lies, in tokens, before any context limit.

A family is continuous; a length is its value rounded to the nearest whole token (a half rounds down), at least 1.
`cumulative(tokens)` is the probability of a value at most `tokens` [n]; `upper` is the largest value, or infinity.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lobra.batch import Array, frozen
from lobra.errors import BadInput
from lobra.spec import positive
from workloads import cumulative

LARGEST_SHAPE = 1000  # of a beta law: beyond it the series grow long, and no data set is so narrow


class LengthFamily(Protocol):
    """A law of lengths."""

    @property
    def upper(self) -> float:
        """The largest value; infinity where there is none."""

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`; float64 [n] to float64 [n]."""


@dataclass(frozen=True, slots=True)
class ShiftedLogNormal:
    """shift + exp(normal(mu, sigma)), restricted to values at most truncate_high (what lies above is drawn again)."""

    shift: float
    mu: float
    sigma: float
    truncate_high: float | None = None

    def __post_init__(self) -> None:
        positive("shifted_lognormal", sigma=self.sigma)
        _check_restriction("shifted_lognormal", self.shift, self.truncate_high, self._whole)

    @property
    def upper(self) -> float:
        """The restriction, or infinity."""
        return math.inf if self.truncate_high is None else self.truncate_high

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`."""
        return _restricted(self._whole, tokens, self.truncate_high)

    def _whole(self, tokens: Array) -> Array:
        above = tokens > self.shift
        result = np.zeros(len(tokens))
        result[above] = cumulative.normal((np.log(tokens[above] - self.shift) - self.mu) / self.sigma)
        return result


@dataclass(frozen=True, slots=True)
class ShiftedGamma:
    """shift + gamma of shape k and mean scale_mean, restricted to values at most truncate_high."""

    shift: float
    k: float
    scale_mean: float
    truncate_high: float | None = None

    def __post_init__(self) -> None:
        positive("shifted_gamma", k=self.k, scale_mean=self.scale_mean)
        _check_restriction("shifted_gamma", self.shift, self.truncate_high, self._whole)

    @property
    def upper(self) -> float:
        """The restriction, or infinity."""
        return math.inf if self.truncate_high is None else self.truncate_high

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`."""
        return _restricted(self._whole, tokens, self.truncate_high)

    def _whole(self, tokens: Array) -> Array:
        return cumulative.gamma((tokens - self.shift) * (self.k / self.scale_mean), self.k)


@dataclass(frozen=True, slots=True)
class Beta:
    """low + (high - low) * beta(alpha, beta)."""

    alpha: float
    beta: float
    low: float
    high: float

    def __post_init__(self) -> None:
        positive("beta", alpha=self.alpha, beta=self.beta)
        if max(self.alpha, self.beta) > LARGEST_SHAPE:
            raise BadInput(f"beta: alpha {self.alpha} and beta {self.beta} must be at most {LARGEST_SHAPE}")
        if not 0 <= self.low < self.high < math.inf:
            raise BadInput(f"beta: low {self.low} and high {self.high} must satisfy 0 <= low < high")

    @property
    def upper(self) -> float:
        """The upper end."""
        return self.high

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`."""
        return cumulative.beta((tokens - self.low) / (self.high - self.low), self.alpha, self.beta)


@dataclass(frozen=True, slots=True)
class Empirical:
    """Quantiles at given probabilities, joined by straight lines."""

    probabilities: tuple[float, ...]  # ascending from 0 to 1
    quantiles: tuple[float, ...]  # ascending, tokens

    def __post_init__(self) -> None:
        if len(self.quantiles) < 2 or len(self.quantiles) != len(self.probabilities):
            raise BadInput("empirical: give at least two quantiles, and a probability for each")
        if (self.probabilities[0], self.probabilities[-1]) != (0, 1) or not np.all(np.diff(self.probabilities) > 0):
            raise BadInput("empirical: its probabilities must ascend from 0 to 1")
        if not np.all(np.diff(self.quantiles) >= 0) or not 0 <= self.quantiles[0] <= self.upper < math.inf:
            raise BadInput("empirical: its quantiles must be finite numbers, ascending and not negative")

    @property
    def upper(self) -> float:
        """The last quantile."""
        return self.quantiles[-1]

    @property
    def mean(self) -> float:
        """Mean of the law: every straight piece is uniform."""
        return float(np.trapezoid(self.quantiles, self.probabilities))

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`; equal quantiles are a jump."""
        knots, shares = frozen(self.quantiles, np.float64), frozen(self.probabilities, np.float64)
        right = np.searchsorted(knots, tokens, side="right")  # knots[right - 1] <= tokens < knots[right]
        high = np.clip(right, 1, len(knots) - 1)
        rise = knots[high] - knots[high - 1]  # 0 only beside an end, where the answer is 0 or 1
        part = np.clip((tokens - knots[high - 1]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        value = shares[high - 1] + part * (shares[high] - shares[high - 1])
        return np.where(right == 0, 0.0, np.where(right == len(knots), 1.0, value))

    def moved(self, shift: float, scale_mean: float) -> "Empirical":
        """The same shape with another mean: shift + (row - shift) * scale_mean / (mean - shift), never below 0."""
        positive("shifted_empirical", scale_mean=scale_mean)
        if not 0 <= shift < self.mean:
            raise BadInput(f"shifted_empirical: shift is {shift}; it must be in [0, {self.mean:.1f}), its base's mean")
        scale = scale_mean / (self.mean - shift)
        return Empirical(self.probabilities, tuple(max(0.0, shift + (row - shift) * scale) for row in self.quantiles))


@dataclass(frozen=True, slots=True)
class Outliers:
    """Rare long sequences apart from the bulk: with this probability a length is uniform in [low, high] instead."""

    probability: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise BadInput(f"outliers: probability is {self.probability}; it must be in [0, 1]")
        if not 0 <= self.low < self.high < math.inf:
            raise BadInput(f"outliers: uniform is [{self.low}, {self.high}]; it must satisfy 0 <= low < high")


@dataclass(frozen=True, slots=True)
class WithOutliers:
    """A family of which some values are replaced by outliers."""

    bulk: LengthFamily
    outliers: Outliers

    @property
    def upper(self) -> float:
        """The larger of both upper ends."""
        return max(self.bulk.upper, self.outliers.high)

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`."""
        rare = np.clip((tokens - self.outliers.low) / (self.outliers.high - self.outliers.low), 0.0, 1.0)
        share = self.outliers.probability
        return (1 - share) * self.bulk.cumulative(tokens) + share * rare


class _Law(Protocol):
    def __call__(self, tokens: Array, /) -> Array: ...


def _restricted(law: _Law, tokens: Array, high: float | None) -> Array:
    if high is None:
        return law(tokens)
    return law(np.minimum(tokens, high)) / law(np.array([high]))


def _check_restriction(owner: str, shift: float, high: float | None, law: _Law) -> None:
    if not 0 <= shift < math.inf:
        raise BadInput(f"{owner}: shift is {shift}; it must be a finite number >= 0")
    if high is not None and not (math.isfinite(high) and law(np.array([float(high)]))[0] >= 1e-6):
        raise BadInput(f"{owner}: truncate_high is {high}, but hardly anything lies below it; give a larger one")
