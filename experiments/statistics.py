"""Intervals by bootstrap: of a mean, and of a reduction paired by batch.

Both are BCa intervals (Efron 1987: bias-corrected and accelerated), which stay honest for the skewed step times that
rare long sequences make; resampled from a seeded stream, so the same values always give the same interval.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from lobra.batch import Array

LEVEL = 0.90
RESAMPLES = 9999
Interval = tuple[float, float]


def mean_interval(values: Array, seed: int) -> Interval | None:
    """Interval of the mean of values [n]; None for fewer than two, whose spread nobody knows."""
    return _interval(lambda chosen: values[chosen].mean(axis=-1), len(values), seed)


def reduction(values: Array, baseline: Array) -> float | None:
    """Share of the baseline that is saved, 1 - mean / mean; None where the baseline costs nothing."""
    return 1 - float(values.mean()) / float(baseline.mean()) if baseline.mean() > 0 else None


def reduction_interval(values: Array, baseline: Array, seed: int) -> Interval | None:
    """Interval of the reduction, resampled by pairs: both saw the same batches [n]."""
    if not np.all(baseline > 0):
        return None
    return _interval(
        lambda chosen: 1 - values[chosen].mean(axis=-1) / baseline[chosen].mean(axis=-1), len(values), seed
    )


def _interval(statistic: Callable[[Array], Array], count: int, seed: int) -> Interval | None:
    """BCa interval of a statistic of positions [..., n]."""
    if count < 2:
        return None
    everything = np.arange(count)
    estimate = float(statistic(everything))
    chosen = np.random.default_rng(np.random.SeedSequence(seed)).integers(0, count, size=(RESAMPLES, count))
    resampled = np.sort(statistic(chosen))
    below = (np.sum(resampled < estimate) + np.sum(resampled <= estimate)) / (2 * RESAMPLES)
    if not 0 < below < 1:
        return float(resampled[0]), float(resampled[-1])
    bias = float(ndtri(below))
    left_out = np.array([statistic(np.delete(everything, i)) for i in everything], dtype=np.float64)
    away = left_out.mean() - left_out
    spread = float(np.sum(away**2))
    acceleration = float(np.sum(away**3)) / (6 * spread**1.5) if spread > 0 else 0.0
    tail = float(ndtri((1 - LEVEL) / 2))
    shares = [_adjusted(bias, acceleration, z) for z in (tail, -tail)]
    low, high = np.quantile(resampled, shares)
    return float(low), float(high)


def _adjusted(bias: float, acceleration: float, z: float) -> float:
    moved = bias + z
    return float(ndtr(bias + moved / (1 - acceleration * moved)))
