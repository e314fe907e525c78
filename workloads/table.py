"""A law of lengths in whole tokens: the probability of 1, 2, 3, ... tokens, exactly what is drawn from."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lobra.batch import Array, frozen
from lobra.errors import BadInput
from workloads.lengths import LengthFamily

LARGEST = 1 << 20  # tokens; no sequence here is longer
NEGLIGIBLE = 1e-9  # the tail that is cut off a law without upper end


class Moments(NamedTuple):
    """Mean and standard deviation in tokens, skewness, excess kurtosis."""

    mean: float
    deviation: float
    skewness: float
    excess_kurtosis: float


@dataclass(frozen=True, slots=True, eq=False)
class LengthTable:
    """Whole-token lengths 1 to n and the probability of at most each."""

    cumulative: Array  # float64 [n], ascending, last 1: cumulative[i] is the probability of at most i + 1 tokens
    bounded: bool  # False: the law has no upper end, the table stops where only NEGLIGIBLE is left

    def __post_init__(self) -> None:
        object.__setattr__(self, "cumulative", frozen(self.cumulative, np.float64))

    @property
    def longest(self) -> int:
        """The largest length that can be drawn."""
        return len(self.cumulative)

    @property
    def lengths(self) -> Array:
        """All lengths, int64 [n]."""
        return np.arange(1, self.longest + 1)

    @property
    def probabilities(self) -> Array:
        """Probability of each length, float64 [n]."""
        return np.diff(self.cumulative, prepend=0.0)

    def at_most(self, tokens: Array) -> Array:
        """Probability of at most so many tokens; int [m] to float64 [m]."""
        shares: Array = np.append(0.0, self.cumulative)[np.clip(tokens, 0, self.longest)]
        return shares

    def quantile(self, uniforms: Array) -> Array:
        """The length below which this share lies; float64 in [0, 1) to int64, any number of them."""
        return np.searchsorted(self.cumulative, uniforms, side="right") + 1

    def sample(self, generator: np.random.Generator, count: int) -> Array:
        """Independent lengths, int64 [count]."""
        return self.quantile(generator.random(count))

    def moments(self) -> Moments:
        """Exact moments of the table."""
        lengths, weights = self.lengths, self.probabilities
        mean = float(lengths @ weights)
        centred = lengths - mean
        variance, third, fourth = (float((centred**power) @ weights) for power in (2, 3, 4))
        if variance <= 0:
            return Moments(mean, 0.0, 0.0, 0.0)
        return Moments(mean, math.sqrt(variance), third / variance**1.5, fourth / variance**2 - 3)


def tabulate(family: LengthFamily, owner: str) -> LengthTable:
    """The family in whole tokens; BadInput names the owner where lengths are beyond LARGEST."""
    bounded = math.isfinite(family.upper)
    top = max(1, math.ceil(family.upper - 0.5)) if bounded else _reach(family)
    if top > LARGEST:
        raise BadInput(
            f"{owner}: its lengths go beyond {LARGEST} tokens; give a lower upper end (truncate_high, high or uniform)"
        )
    cumulative = family.cumulative(np.arange(1, top + 1) + 0.5)
    if not bounded:
        cumulative = cumulative[: int(np.searchsorted(cumulative, 1 - NEGLIGIBLE)) + 1]
    cumulative = np.minimum(np.maximum.accumulate(cumulative), 1.0)
    cumulative[-1] = 1.0
    return LengthTable(cumulative, bounded)


def _reach(family: LengthFamily) -> int:
    """A power of two beyond which only NEGLIGIBLE lies, or the first beyond LARGEST."""
    top = 1
    while top <= LARGEST and family.cumulative(np.array([top + 0.5]))[0] < 1 - NEGLIGIBLE:
        top *= 2
    return top
