"""A law of lengths spread wider or narrower, or skewed more or less, with its mean kept: what if the data were others.

A length L becomes mean + spread * deviation * z, where z is L ** skew standardised. So `skew` bends the law at the same
mean and deviation (above 1: rarer and longer tails), and `spread` then multiplies the coefficient of variation. Both
maps ascend, so quantiles stay quantiles. What would fall below one token becomes one token, which lifts the mean of a
law that starts near zero by little; the cut at a context limit comes after all this.
"""

from dataclasses import dataclass

from lobra.batch import Array
from lobra.errors import BadInput
from workloads.lengths import LengthFamily
from workloads.table import tabulate

LEAST, MOST = 0.1, 3.0  # of both factors; beyond, tails leave every table


@dataclass(frozen=True, slots=True)
class Reshaped:
    """offset + slope * L ** power of another family's values L; a LengthFamily."""

    family: LengthFamily
    offset: float
    slope: float
    power: float

    @property
    def upper(self) -> float:
        """The image of the upper end, a token at least; infinity stays."""
        return max(1.0, self.offset + self.slope * float(self.family.upper**self.power))

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`."""
        original: Array = (((tokens - self.offset).clip(min=0.0)) / self.slope) ** (1 / self.power)
        return self.family.cumulative(original)


def reshaped(family: LengthFamily, spread: float, skew: float, owner: str) -> LengthFamily:
    """The family so changed; itself where both are 1. BadInput where a factor is out of range."""
    for name, value in (("spread", spread), ("skew", skew)):
        if not LEAST <= value <= MOST:
            raise BadInput(
                f"{name} is {value}; give a factor from {LEAST:g} to {MOST:g}, 1 to leave lengths as they are"
            )
    if spread == 1.0 and skew == 1.0:
        return family
    table = tabulate(family, owner)
    moments = table.moments()
    powered, weights = table.lengths.astype(float) ** skew, table.probabilities
    centre = float(powered @ weights)
    deviation = float(((powered - centre) ** 2) @ weights) ** 0.5
    if deviation <= 0:
        return family  # one length alone has no shape
    slope = spread * moments.deviation / deviation
    return Reshaped(family, moments.mean - slope * centre, slope, skew)
