"""True seconds of a slot for the sequences that it holds: what a repair asks hundreds of times a step.

In general they are those of the micro-batches that the batching forms. Packs need not be formed for that: the columns
of their sequences, sorted once a step, are packed as forming does, and the prices of packs say the rest; three to five
times as fast. The difference: packs are priced as they are planned, not with the knots of measured curves (0.3 %).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lobra.batch import Array, Bucket, concatenate
from lobra.protocols import Batching, CostModel
from policies.batching.pack_prices import PackPrices
from policies.batching.packed import Packed
from policies.batching.packing import pack
from policies.dispatch.block_dealing import Sharing
from policies.evaluate import work_seconds

Held = tuple[Array, ...]  # [J], positions in each bucket, ascending


class SlotPrices(Protocol):
    """What slots take."""

    def seconds(self, slot: int, held: Held) -> float:
        """Seconds of a slot that holds these positions of every bucket, some at least."""
        ...


def slot_prices(buckets: tuple[Bucket, ...], sharing: Sharing, batching: Batching, cost: CostModel) -> SlotPrices:
    """Prices of packs where rows are packed, else of formed micro-batches."""
    if isinstance(batching, Packed):
        return OfPacks(buckets, sharing, batching, cost)
    return OfFormed(buckets, sharing, batching, cost)


def share_of(buckets: Sequence[Bucket], held: Held) -> tuple[Bucket, ...]:
    """These positions as parts of buckets."""
    return tuple(
        Bucket(bucket.width, bucket.sequences.take(positions))
        for bucket, positions in zip(buckets, held, strict=True)
        if len(positions)
    )


class OfFormed:
    """Seconds of formed micro-batches."""

    def __init__(self, buckets: tuple[Bucket, ...], sharing: Sharing, batching: Batching, cost: CostModel) -> None:
        self._buckets, self._machines = buckets, sharing.slots.machines
        self._batching, self._cost = batching, cost

    def seconds(self, slot: int, held: Held) -> float:
        """By the closed form of the replica's schedule."""
        machine = self._machines[slot]
        work = self._batching.form(share_of(self._buckets, held), machine.replica, self._cost, group=machine.group)
        return work_seconds(work, machine.replica, self._cost)


class OfPacks:
    """Seconds of packs, without forming them."""

    def __init__(self, buckets: tuple[Bucket, ...], sharing: Sharing, batching: Packed, cost: CostModel) -> None:
        everything = concatenate(0, [bucket.sequences for bucket in buckets])
        order = np.lexsort((everything.index, everything.tenant, -everything.length))  # as packs are formed
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self._ranks = np.split(rank, np.cumsum([bucket.count for bucket in buckets])[:-1])
        self._lengths, self._tenants = everything.length[order], everything.tenant[order]
        self._sharing, self._batching, self._cost = sharing, batching, cost
        self._prices: dict[tuple[int, int], PackPrices] = {}

    def seconds(self, slot: int, held: Held) -> float:
        """As the packs are planned."""
        pairs = zip(self._ranks, held, strict=True)
        ranks = np.sort(np.concatenate([rank[positions] for rank, positions in pairs if len(positions)]))
        prices = self._prices_of(slot)
        return pack(self._lengths[ranks], self._tenants[ranks], prices, self._batching.splits).total

    def _prices_of(self, slot: int) -> PackPrices:
        """The same for all slots of a kind and size: looked up once."""
        slots = self._sharing.slots
        key = int(slots.kind[slot]), int(slots.size[slot])
        if key not in self._prices:
            machine = slots.machines[slot]
            self._prices[key] = self._batching.prices(machine.replica, self._cost, machine.shards)
        return self._prices[key]
