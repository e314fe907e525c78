"""Who shares micro-batches: adapters with long sequences beside adapters with short ones, at most two.

Some micro-batches of other adapters must lie between two batches of one (see `rule`). So adapters are grouped: a group
packs its batches together, and the other groups' micro-batches keep its next batch at a distance. Pairing a long
with a short adapter fills micro-batches better, but leaves fewer groups to lie between; a pair is formed where a low
estimate of the others' micro-batches still covers stages - 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, stdev

CAUTION = 0.25  # standard deviations below the mean that the low estimate takes (LoRAFusion's value)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one adapter asks for in a batch."""

    adapter: int
    mean: float  # tokens of a sequence
    likely: int  # micro-batches of a batch
    least: int  # likewise, a low estimate


def demand(adapter: int, lengths: Sequence[int], per_batch: float, capacity: int) -> Demand:
    """The demand of an adapter with these lengths, at least one, of which a batch holds so many."""
    mean = fmean(lengths)
    low = mean - CAUTION * (stdev(lengths) if len(lengths) > 1 else 0.0)
    return Demand(adapter, mean, ceil(per_batch * mean / capacity), max(0, ceil(per_batch * low / capacity)))


def grouped(demands: Sequence[Demand], stages: int) -> tuple[tuple[int, ...], ...]:
    """Groups of one or two adapters in their order of execution; every adapter in one."""
    needed = stages - 1
    total = sum(one.least for one in demands)
    largest = max(demands, key=lambda one: (one.likely, -one.adapter), default=None)
    by_mean = sorted(demands, key=lambda one: (-one.mean, one.adapter))
    if largest is None or total - largest.least < needed:
        return tuple((one.adapter,) for one in by_mean)
    groups: list[tuple[int, ...]] = []
    head, tail = 0, len(by_mean) - 1
    while head < tail:
        long, short = by_mean[head], by_mean[tail]
        if total - long.least - short.least >= needed:
            groups.append((long.adapter, short.adapter))
            head, tail = head + 1, tail - 1
        elif long.likely >= short.likely:
            groups.append((long.adapter,))
            head += 1
        else:
            groups.append((short.adapter,))
            tail -= 1
    if head == tail:
        groups.append((by_mean[head].adapter,))
    return tuple(groups)
