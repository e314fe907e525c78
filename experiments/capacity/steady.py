"""The steady state of a series: its beginning left out, its level with an interval that knows values hang together.

Values that follow one another are not independent, so the interval of a level comes from the means of a few long
batches (Law and Kelton, batch means), by Student's t; a level such as a quantile is itself that of all values that are
left. Where the beginning ends is found by the marginal standard error (White, 1997, MSER-5): of all cuts in the first
third, the one that leaves the smallest standard error of what follows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np
from scipy.special import stdtrit

from lobra.errors import BadInput

BLOCK = 5  # values averaged before a cut is looked for
Level = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class Steady:
    """A level and its interval; None where too few values are left for one."""

    value: float | None
    low: float | None
    high: float | None
    left_out: int  # values of the beginning
    batches: int  # behind the interval
    each: int  # values a batch


def typical_seconds(seconds: Sequence[float], warmup: int = 3) -> float:
    """The median after the first so many, which compile, allocate and load; of all where no more are there."""
    if not seconds:
        raise BadInput("steady state: there is no step; give the seconds of one at least")
    return median(seconds[warmup:] or seconds)


def beginning(values: Sequence[float]) -> int:
    """How many values come before the steady state; by blocks of 5, at most a third of all."""
    blocks = len(values) // BLOCK
    if blocks < 2:
        return 0
    means = np.asarray(values[: blocks * BLOCK], dtype=np.float64).reshape(blocks, BLOCK).mean(axis=1)
    errors = [float(means[cut:].var()) / (blocks - cut) for cut in range(blocks // 3 + 1)]
    return int(np.argmin(errors)) * BLOCK


def steady(
    values: Sequence[float], level: Level = fmean, *, batches: int = 10, least: int = 20, share: float = 0.9
) -> Steady:
    """The level of the steady state by batch means; undecided (None) with fewer than `least` values a batch."""
    cut = beginning(values)
    rest = values[cut:]
    each = len(rest) // batches
    if each < least:
        return Steady(level(rest) if rest else None, None, None, cut, 0, each)
    rest = rest[len(rest) - each * batches :]
    levels = [level(rest[at * each : (at + 1) * each]) for at in range(batches)]
    middle = level(rest)
    half = float(stdtrit(batches - 1, (1 + share) / 2)) * stdev(levels) / math.sqrt(batches)
    return Steady(middle, middle - half, middle + half, cut, batches, each)


def quantile(share: float) -> Level:
    """The smallest value that at least this share of all do not exceed."""

    def of(values: Sequence[float]) -> float:
        ordered = sorted(values)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return of
