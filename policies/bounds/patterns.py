"""The best pattern of one machine: which counts it can compute in time for the highest price, for every time at once.

A knapsack over buckets, where n sequences of a bucket weigh what the exact evaluator charges for them, in whole cells
of a grid of time, rounded down: so every pattern of true counts has a place, and a few that are slightly too long have
one, too. What is found can only be too high, which keeps bounds that rest on it valid.

A pipelined machine waits for its longest micro-batch as well. Its patterns are therefore sorted by level: an interval
in which its longest micro-batch lies. A pattern of a level has no longer one, and waits for the shortest of the
interval at least. Shapes: J buckets, G cells of time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Array
from lobra.rates import Loads
from policies.evaluate import count_seconds

LEVELS = 32  # a pipelined kind at most; 8 lose 2.6 % on the benchmark's starved pipelined step, 64 win nothing


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Counts of one bucket worth choosing from: more sequences weigh more."""

    bucket: int
    amounts: Array  # int64 [n], ascending
    weights: Array  # int64 [n], cells, ascending


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """What a machine of one kind and level can choose from."""

    bubble: int  # cells that it waits at least
    options: tuple[Options, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Counts of one machine, and the cells that they take."""

    counts: Array  # int64 [J]
    weight: int


def levels_of(loads: Loads, counts: Array, seconds_a_cell: float, cells: int) -> tuple[Level, ...]:
    """The levels of one kind, ascending; one where it is no pipeline, or its bubble does not depend on the counts."""
    priced = [_priced(loads, bucket, int(count)) for bucket, count in enumerate(counts.tolist())]
    if loads.stages == 1 or loads.longest is not None:
        bubble = int((loads.stages - 1) * (loads.longest or 0.0) / seconds_a_cell * (1 - 1e-12))
        return (_level(priced, np.inf, bubble, seconds_a_cell, cells - bubble),) if bubble <= cells else ()
    times = np.unique(np.concatenate([longest[np.isfinite(total)] for total, longest in priced]))
    times = times[loads.stages * times <= seconds_a_cell * cells * (1 + 1e-9)]  # that a machine ends with in time
    edges = np.unique(np.linspace(0, len(times), min(LEVELS, len(times)) + 1).astype(np.int64))
    levels = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        bubble = int((loads.stages - 1) * float(times[start]) / seconds_a_cell * (1 - 1e-9))
        levels.append(_level(priced, float(times[end - 1]), bubble, seconds_a_cell, cells - bubble))
    return tuple(levels)


def _priced(loads: Loads, bucket: int, count: int) -> tuple[Array, Array]:
    """Seconds of 1 .. count sequences of a bucket without bubbles, and of their longest micro-batch."""
    alone = replace(
        loads,
        capacity=loads.capacity[bucket : bucket + 1],
        fixed=loads.fixed[bucket : bucket + 1],
        each=loads.each[bucket : bucket + 1],
        least=None,
        longest=None,
        stages=1,
    )
    amounts = np.arange(1, count + 1)[:, None]
    total = count_seconds(alone, amounts)
    longest = np.where(np.isfinite(total), count_seconds(replace(alone, stages=2), amounts), 0.0)
    return total, longest - np.where(np.isfinite(total), total, 0.0)


def _level(priced: Sequence[tuple[Array, Array]], high: float, bubble: int, seconds_a_cell: float, room: int) -> Level:
    """What a machine whose micro-batches take `high` seconds at most can choose in so many cells."""
    options = []
    for bucket, (total, longest) in enumerate(priced):
        weights = np.floor(np.minimum(total / seconds_a_cell, room + 1.0) * (1 - 1e-12)).astype(np.int64)
        amounts = np.flatnonzero((weights <= room) & np.isfinite(total) & (longest <= high * (1 + 1e-9))) + 1
        if len(amounts):
            lightest = np.minimum.accumulate(weights[amounts - 1][::-1])[::-1]  # of so many or more
            last = np.append(lightest[1:] > lightest[:-1], True)  # the most for that weight
            options.append(Options(bucket, amounts[last], lightest[last]))
    return Level(bubble, tuple(options))


@dataclass(frozen=True, slots=True, eq=False)
class Knapsack:
    """The best patterns of one level for given prices."""

    level: Level
    values: tuple[Array, ...]  # float64 [cells + 1] each: of the first so many options, by cells
    prices: Array  # float64 [J]

    @property
    def best(self) -> Array:
        """Value of the best pattern by cells, the bubble among them; float64 [G + 1], 0 where even that is too long."""
        return np.concatenate([np.zeros(self.level.bubble), self.values[-1]])

    def pattern(self, cells: int) -> Pattern:
        """The best pattern in so many cells, at least the bubble."""
        room = cells - self.level.bubble
        counts, weight = np.zeros(len(self.prices), dtype=np.int64), self.level.bubble
        for before, options in zip(self.values[-2::-1], reversed(self.level.options), strict=True):
            inside = options.weights <= room
            weights, amounts = options.weights[inside], options.amounts[inside]
            if not len(amounts):
                continue
            values = before[room - weights] + self.prices[options.bucket] * amounts
            chosen = int(np.argmax(values))
            if values[chosen] > before[room]:
                counts[options.bucket] = amounts[chosen]
                weight += int(weights[chosen])
                room -= int(weights[chosen])
        return Pattern(counts, weight)


def knapsack(level: Level, prices: Array, cells: int) -> Knapsack:
    """Solve one level for prices [J] of a sequence of each bucket, by dynamic programming over the options."""
    room = cells - level.bubble
    values = [np.zeros(room + 1)]
    sums = np.empty(room + 1)
    for options in level.options:
        before = values[-1]
        after, price = before.copy(), float(prices[options.bucket])
        if price > 0:
            for amount, weight in zip(options.amounts.tolist(), options.weights.tolist(), strict=True):
                part = sums[: room + 1 - weight]
                np.add(before[: room + 1 - weight], price * amount, out=part)
                np.maximum(after[weight:], part, out=after[weight:])
        values.append(after)
    return Knapsack(level, tuple(values), prices)
