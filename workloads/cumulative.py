"""Cumulative distribution functions of the normal, gamma and beta laws, by series whose terms are all positive.

Positive terms cannot cancel, so a sum is as exact as its terms (about 1e-12); the price is a loop of some hundred
vectorised terms. Formulas: Abramowitz and Stegun 6.5.29 (gamma) and 26.5.4 with 15.1.1 (beta).
"""

import math
from collections.abc import Callable

import numpy as np

from lobra.batch import Array

PRECISION = 1e-17  # a term below this part of its sum no longer changes a float64


def normal(z: Array) -> Array:
    """Probability that a standard normal value is at most z [n]."""
    scaled = (-z / math.sqrt(2)).tolist()
    return 0.5 * np.fromiter(map(math.erfc, scaled), np.float64, len(scaled))


def gamma(x: Array, k: float) -> Array:
    """Probability that a gamma value of shape k and scale 1 is at most x [n]."""
    result = np.zeros(len(x))
    certain = x > k + 40 + 10 * math.sqrt(k)  # what lies above has a probability below 1e-17
    result[certain] = 1.0
    inside = (x > 0) & ~certain
    values = x[inside]
    log_first = k * np.log(values) - values - math.lgamma(k + 1)
    result[inside] = np.exp(log_first) * _series(lambda n: values / (k + n), len(values))
    return np.minimum(result, 1.0)


def beta(x: Array, a: float, b: float) -> Array:
    """Probability that a beta value of shapes a and b (each at most 1000) is at most x [n]."""
    x = np.clip(x, 0.0, 1.0)
    result = np.empty(len(x))
    lower = x <= min(max(a / (a + b), 0.1), 0.9)  # each side is summed from its nearer end, where the series is short
    result[lower] = _beta_from_below(x[lower], a, b)
    result[~lower] = 1.0 - _beta_from_below(1.0 - x[~lower], b, a)
    return np.clip(result, 0.0, 1.0)


def _beta_from_below(x: Array, a: float, b: float) -> Array:
    result = np.zeros(len(x))
    inside = x > 0
    values = x[inside]
    log_front = math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b)
    first = np.exp(log_front + a * np.log(values) + b * np.log1p(-values))
    result[inside] = first * _series(lambda n: values * ((a + b + n - 1) / (a + n)), len(values))
    return result


def _series(ratio: Callable[[int], Array], count: int) -> Array:
    """1 + r(1) + r(1) r(2) + ... for `count` arguments at once."""
    term = np.ones(count)
    total = np.ones(count)
    n = 0
    while np.any(term > PRECISION * total):
        n += 1
        term = term * ratio(n)
        total = total + term
    return total
