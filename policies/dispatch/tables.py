"""Seconds of every count on every kind, looked up instead of computed: what a local search lives on.

Shapes: K kinds, J buckets, S = sum of (count + 1) over the buckets; column offset[j] + n stands for n sequences of
bucket j. Built once a step from the exact evaluator's formula in O(K S); a test holds the two together.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lobra.batch import Array
from lobra.rates import Loads
from policies.dispatch.fleet import Fleet

Split = Literal["even", "full"]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Prices of counts. A machine takes its totals plus its greatest bubble plus, if it works at all, the constant."""

    offset: Array  # int64 [J]
    total: Array  # float64 [K, S], seconds of the micro-batches that n sequences of a bucket form; inf: do not fit
    bubble: Array  # float64 [K, S], (stages - 1) times the longest of them; 0 where it is constant
    constant: Array  # float64 [K], (stages - 1) times the longest micro-batch where counts do not tell it
    capacity: Array  # int64 [K, J]
    room: Array  # int64 [K, J], capacity, but 1 where nothing fits: to divide by
    bubbles: Array  # bool [K], whether the longest micro-batch matters
    pipelined: bool  # whether it does for any kind


def tables_of(fleet: Fleet, counts: Array, split: Split = "even") -> Tables:
    """Tables for counts [J] of a step.

    `even` splits n sequences into micro-batches of even size, as they are formed and as the exact evaluator has it;
    `full` into full ones and a remainder, as the paper's planner counts. They differ in the longest only.
    """
    sizes = counts + 1
    offset = np.cumsum(sizes) - sizes
    bucket = np.repeat(np.arange(len(counts)), sizes)
    number = np.arange(int(sizes.sum())) - offset[bucket]
    priced = [_price(loads, bucket, number, split) for loads in fleet.loads]
    stages = np.array([loads.stages - 1 for loads in fleet.loads], dtype=np.float64)
    known = np.array([loads.longest if loads.longest is not None else 0.0 for loads in fleet.loads])
    counted = np.array([loads.longest is None for loads in fleet.loads])
    capacity = np.stack([loads.capacity for loads in fleet.loads]).astype(np.int64)
    return Tables(
        offset=offset,
        total=np.stack([total for total, _ in priced]),
        bubble=np.stack([longest for _, longest in priced]) * (stages * counted)[:, None],
        constant=stages * known,
        capacity=capacity,
        room=np.maximum(capacity, 1),
        bubbles=counted & (stages > 0),
        pipelined=bool((counted & (stages > 0)).any()),
    )


def _price(loads: Loads, bucket: Array, number: Array, split: Split) -> tuple[Array, Array]:
    """Seconds in total and of the longest micro-batch, for `number` sequences of `bucket`; float64 [S] each."""
    capacity = np.maximum(loads.capacity, 1)[bucket]
    fixed, each = loads.fixed[bucket], loads.each[bucket]
    batches = np.ceil(number / capacity)  # whole numbers below 2^26 divide exactly as floats, and several times faster
    small = np.floor(number / np.maximum(batches, 1.0))
    rest = number - small * batches
    fast = np.maximum(loads.floor, fixed + each * small)
    if split == "full":
        small, rest = np.minimum(number, capacity), number % capacity
        fast = np.maximum(loads.floor, fixed + each * small)
        last = np.where((rest > 0) & (number > capacity), np.maximum(loads.floor, fixed + each * rest), 0.0)
        total, longest = np.maximum(number // capacity, 1) * fast + last, fast
    else:
        slow = np.maximum(loads.floor, fixed + each * (small + 1))
        total, longest = rest * slow + (batches - rest) * fast, np.where(rest > 0, slow, fast)
    fits = loads.capacity[bucket] > 0
    return np.where(number > 0, np.where(fits, total, np.inf), 0.0), np.where((number > 0) & fits, longest, 0.0)
