"""From a fluid in several group sizes to counts of every block: level by level, the largest blocks first.

The fluid says how many sequences of each bucket a kind computes, and in groups of which size. What goes to blocks of
one size is balanced over them with the seconds that their members already have; what nobody shares is balanced over
all replicas last. A start of so many seconds is told to the balancing dispatch as the bubble of a second stage, which
every machine that works at all has to wait for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Array, Bucket
from lobra.errors import BadInput
from lobra.protocols import Batching, CostModel
from lobra.rates import Loads
from policies.bounds.sharing import SharedFluid
from policies.dispatch.balanced import Balanced
from policies.dispatch.blocks import Slots
from policies.dispatch.fleet import Fleet, bucket_counts
from policies.dispatch.rounding import round_flow
from policies.evaluate import count_seconds

STARTS = 64  # parts of a step; starts that differ by less are taken for equal


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """A step's buckets and what they cost on every kind, by the number of replicas that share them."""

    slots: Slots
    counts: Array  # int64 [J]
    sizes: tuple[Mapping[int, Loads], ...]  # [K]
    replicas: tuple[int, ...]  # [K], how many there are


def sharing_of(buckets: tuple[Bucket, ...], slots: Slots, batching: Batching, cost: CostModel) -> Sharing:
    """Prices of all group sizes there are; those that the cost model cannot price are left out."""
    found: list[dict[int, Loads]] = [{} for _ in range(int(slots.kind.max()) + 1)]
    for machine, kind in zip(reversed(slots.machines), reversed(slots.kind.tolist()), strict=True):
        if machine.shards in found[kind]:
            continue
        try:
            found[kind][machine.shards] = batching.loads(buckets, machine.replica, cost, shards=machine.shards)
        except BadInput:  # more shards than there are heads
            if machine.shards == 1:
                raise
    alone = slots.kind[slots.size == 1]
    return Sharing(slots, bucket_counts(buckets), tuple(found), tuple(np.bincount(alone).tolist()))


def dealt(sharing: Sharing, fluid: SharedFluid, balanced: Balanced) -> Array:
    """Counts of every slot, int64 [S, J], that follow the fluid's sizes."""
    slots, fits = sharing.slots, fluid.size > 0
    quick = replace(balanced, work=0)  # what blocks leave uneven is levelled by what nobody shares
    quotas = round_flow(fluid.flow, sharing.counts, fits)
    result = np.zeros((len(slots.members), len(sharing.counts)), dtype=np.int64)
    starts = np.zeros(len(slots.above))
    grain = max(fluid.seconds / STARTS, 1e-12)
    for size in sorted({size for kind in sharing.sizes for size in kind if size > 1}, reverse=True):
        for kind, loads in enumerate(sharing.sizes):
            amounts = np.where(fluid.size[kind] == size, quotas[kind], 0)
            chosen = np.flatnonzero((slots.size == size) & (slots.kind == kind))
            if not amounts.any():
                continue
            before = np.array([starts[slots.members[slot][0]] for slot in chosen])
            fleet = _started((loads[size],), np.zeros(len(chosen), dtype=np.int64), before, grain)
            result[chosen] = quick.balance(fleet, amounts)
            for slot, seconds in zip(chosen, count_seconds(loads[size], result[chosen]), strict=True):
                starts[list(slots.members[slot])] += seconds
    rest = np.where(fluid.size == 1, quotas, 0).sum(axis=0)
    if rest.any():
        alone = np.flatnonzero(slots.size == 1)
        fleet = _started([kind[1] for kind in sharing.sizes], slots.kind[alone], starts, grain)
        result[alone] = balanced.balance(fleet, rest)
    return result


def _started(loads: Sequence[Loads], kind: Array, starts: Array, grain: float) -> Fleet:
    """Machines of these kinds [n] which begin after these seconds [n]; alike are those of one kind and start."""
    pairs = np.stack([kind, np.rint(starts / grain).astype(np.int64)], axis=1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    which = which.reshape(-1)
    begins = np.bincount(which, weights=starts) / np.bincount(which)
    return Fleet(
        tuple(_after(loads[row[0]], begin) for row, begin in zip(distinct, begins.tolist(), strict=True)), which
    )


def _after(loads: Loads, start: float) -> Loads:
    return loads if start <= 0 else replace(loads, stages=2, longest=start)
