"""From the values of many seeds to a figure: quantiles with distribution-free bounds, means with bootstrap intervals.

The bounds of a quantile are order statistics: whatever the law of the values, the quantile lies below the r-th smallest
of n with probability P(Bin(n, q) < r). For the upper 95 % bound of a p95 that takes 59 values; with fewer there is
none, and the figure says so. Means need 20 values for an interval.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from experiments.statistics import LEVEL, mean_interval
from experiments.whatif.answer import Figure
from lobra.batch import Array

LEAST = 20  # values for the interval of a mean


def quantile_figure(name: str, values: Sequence[float], quantile: float, unit: str, note: str = "") -> Figure:
    """The quantile of the values, with the interval that any law allows; one-sided where the other end has none."""
    low, high = quantile_bounds(values, quantile)
    if high is None:
        why = f"no upper bound: {needed(quantile)} seeds are needed, there are {len(values)}"
        note = f"{note}; {why}" if note else why
    value = float(np.quantile(values, quantile, method="higher"))
    return Figure(name, value, unit, low, high, LEVEL, len(values), note)


def quantile_bounds(
    values: Sequence[float], quantile: float, level: float = LEVEL
) -> tuple[float | None, float | None]:
    """Order statistics between which the quantile of the law lies with this probability; None where n is too small."""
    ordered, count, tail = sorted(values), len(values), (1 - level) / 2
    below: Array = binom.cdf(np.arange(count), count, quantile)  # [r - 1]: P(Bin < r), the r-th smallest is no lower
    lower = np.flatnonzero(below <= tail)
    upper = np.flatnonzero(below >= 1 - tail)
    return (
        ordered[int(lower[-1])] if len(lower) else None,
        ordered[int(upper[0])] if len(upper) else None,
    )


def needed(quantile: float, level: float = LEVEL) -> int:
    """Values that an upper bound of this quantile takes at least."""
    count = 1
    while quantile**count > (1 - level) / 2:
        count += 1
    return count


def mean_figure(name: str, values: Sequence[float], unit: str, seed: int, note: str = "") -> Figure:
    """The mean of the values, with a bootstrap interval (BCa) from 20 values up."""
    known = np.array(values, dtype=np.float64)
    interval = mean_interval(known, seed) if len(known) >= LEAST else None
    if interval is None:
        why = f"no interval: {LEAST} seeds are needed, there are {len(values)}"
        note = f"{note}; {why}" if note else why
    low, high = interval or (None, None)
    return Figure(name, float(known.mean()), unit, low, high, LEVEL, len(values), note)


def spread_figure(name: str, values: Sequence[float], unit: str, note: str = "") -> Figure:
    """The median of the values, and where the middle 90 % of them lie, from 20 values up."""
    low, high = None, None
    if len(values) >= LEAST:
        low, high = (float(each) for each in np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    else:
        why = f"no interval: {LEAST} seeds are needed, there are {len(values)}"
        note = f"{note}; {why}" if note else why
    return Figure(name, float(np.median(values)), unit, low, high, LEVEL, len(values), note)


def plain(name: str, value: float | None, unit: str, note: str = "") -> Figure:
    """A number that no draw is behind."""
    return Figure(name, value, unit, note=note)
