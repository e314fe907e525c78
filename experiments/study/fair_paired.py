"""Ratios of two costs on the same batches, with what is not known about them.

Two parts are unknown: which batches come, and what the prices really are. The first is estimated from the batches,
paired (both sides saw the same ones); the second from joint draws of the cost model, of which each is the same truth
for both sides. Both are taken as normal in the logarithm of the ratio, so that few batches and draws suffice, and their
half-widths of 90 % are added as squares. Both parts are also told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log, sqrt

import numpy as np
from scipy.special import stdtrit

TAIL = 0.95  # one end of an interval of 90 %
NORMAL = 1.645  # standard deviations of a normal number to that end


@dataclass(frozen=True, slots=True)
class Costs:
    """What one side costs: by batch, and by how much that changes in each draw of the prices (none drawn: empty)."""

    gpu_seconds: tuple[float, ...]
    draws: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Of a batch."""
        return float(np.mean(self.gpu_seconds))


@dataclass(frozen=True, slots=True)
class Ratio:
    """One cost over another, with 90 % half-widths of its logarithm; None for the batches: one batch tells nothing."""

    value: float
    batches: float | None
    prices: float

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval that holds both."""
        return None if self.batches is None else self._around(hypot(self.batches, self.prices))

    @property
    def ends_of_batches(self) -> tuple[float, float] | None:
        """The interval if the prices are right."""
        return None if self.batches is None else self._around(self.batches)

    def _around(self, half: float) -> tuple[float, float]:
        return self.value * exp(-half), self.value * exp(half)


def ratio(one: Costs, other: Costs) -> Ratio:
    """What one costs over what the other does, paired by batch (delta method, Student's t) and by draw."""
    upper, lower = np.array(one.gpu_seconds), np.array(other.gpu_seconds)
    value, count = float(upper.mean() / lower.mean()), len(upper)
    batches = None
    if count > 1:
        spread = float(np.std(upper - value * lower, ddof=1)) / sqrt(count) / float(upper.mean())
        batches = float(stdtrit(count - 1, TAIL)) * spread
    return Ratio(value, batches, _price_spread(one.draws, other.draws))


def saved(of: Ratio) -> tuple[float, tuple[float, float] | None]:
    """What the numerator saves of the denominator, 1 - ratio, and its interval."""
    ends = of.ends
    return 1 - of.value, None if ends is None else (1 - ends[1], 1 - ends[0])


def _price_spread(one: Sequence[float], other: Sequence[float]) -> float:
    """Half-width of the logarithm of the ratio over draws; 0 where nothing was drawn."""
    if min(len(one), len(other)) < 2:
        return 0.0
    changes = [log(a / b) for a, b in zip(one, other, strict=True)]
    return NORMAL * float(np.std(changes, ddof=1))
