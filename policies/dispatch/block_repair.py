"""Single sequences moved between blocks and replicas while the true maximum falls.

As `repair`, over slots instead of machines: a replica's seconds are those of all the slots it is in. A sequence leaves
one of the slots of the slowest replica for a slot of one with little to do, or changes places with one there; both
slots are formed again, and it stays if every replica of either then ends below the old maximum. Cost: one forming a
slot, two a move tried. Limits: which sequence of a bucket moves is not asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Bucket
from lobra.protocols import Batching, CostModel
from policies.dispatch.block_dealing import Sharing
from policies.dispatch.slot_prices import Held, SlotPrices, share_of, slot_prices

GAIN = 1e-9
CLOSE = 1e-3  # above the mean of all replicas: what is left is hardly worth its tries
NEVER = 1e15  # seconds of a sequence where it does not fit: finite, since it is subtracted from its like
TARGETS = 6  # replicas with the least to do, whose slots may take a sequence

Move = tuple[int, int, int, int]  # slot that gives, slot that takes, bucket given, bucket returned or -1


@dataclass(slots=True, eq=False)
class Placed:
    """Who holds which sequences, and what that takes; S slots, R replicas, J buckets."""

    buckets: tuple[Bucket, ...]
    sharing: Sharing
    prices: SlotPrices
    held: list[Held]  # [S]
    of_slots: Array  # float64 [S]
    seconds: Array  # float64 [R]

    @classmethod
    def of(
        cls, buckets: tuple[Bucket, ...], counts: Array, sharing: Sharing, batching: Batching, cost: CostModel
    ) -> "Placed":
        """Neighbouring sequences of each bucket to the slots in their order, by counts [S, J]."""
        ends = np.cumsum(counts, axis=0)
        held = [
            tuple(np.arange(end - count, end) for end, count in zip(*row, strict=True))
            for row in zip(ends.tolist(), counts.tolist(), strict=True)
        ]
        slots = sharing.slots
        prices = slot_prices(buckets, sharing, batching, cost)
        placed = cls(buckets, sharing, prices, held, np.zeros(len(held)), np.zeros(len(slots.above)))
        placed.of_slots[:] = [placed.price(slot, positions) for slot, positions in enumerate(held)]
        placed.seconds[:] = slots.seconds(placed.of_slots)
        return placed

    @property
    def makespan(self) -> float:
        """Seconds of the slowest replica."""
        return float(self.seconds.max())

    def share(self, held: Held) -> tuple[Bucket, ...]:
        """These positions as parts of buckets."""
        return share_of(self.buckets, held)

    def price(self, slot: int, held: Held) -> float:
        """True seconds of a slot if it held these positions."""
        return self.prices.seconds(slot, held) if any(map(len, held)) else 0.0


def repair_blocks(placed: Placed, tries: int) -> None:
    """Lower the makespan while at most `tries` moves are tried; never slower than before."""
    each = np.stack([_each(placed.sharing, slot) for slot in range(len(placed.held))])
    refused: set[Move] = set()
    for _ in range(tries):
        if placed.makespan <= placed.seconds.mean() * (1 + CLOSE):
            return
        move = _promising(placed, each, refused)
        if move is None:
            return
        if _try(placed, *move):
            refused.clear()
        else:
            refused.add(move)


def _each(sharing: Sharing, slot: int) -> Array:
    """What nothing, then a sequence of each bucket, is expected to add to a slot; float64 [1 + J]."""
    loads = sharing.sizes[sharing.slots.kind[slot]].get(int(sharing.slots.size[slot]))
    fits = np.zeros(len(sharing.counts), dtype=bool) if loads is None else loads.capacity > 0
    return np.append(0.0, np.where(fits, 0.0 if loads is None else loads.each, NEVER))


def _promising(placed: Placed, each: Array, refused: set[Move]) -> Move | None:
    """The move with the least expected maximum over all replicas it concerns, not refused yet."""
    slowest = int(np.argmax(placed.seconds))
    best, least = None, placed.makespan * (1 - GAIN)
    slots, takers = placed.sharing.slots, list(_takers(placed))
    tops = {slot: _top(placed, slots.members[slot]) for slot in {*takers, *slots.above[slowest]}}
    for giver in slots.above[slowest]:
        given = np.array(_filled(placed.held[giver]), dtype=np.int64)
        others = [taker for taker in takers if taker != giver]
        if not len(given) or not others:
            continue
        worse = _worse(placed, each, giver, others, given=given, tops=tops)
        for move in refused:
            if move[0] == giver and move[1] in others:
                worse[others.index(move[1]), np.searchsorted(given, move[2]), move[3] + 1] = np.inf
        taker, row, column = np.unravel_index(int(worse.argmin()), worse.shape)
        if worse[taker, row, column] < least:
            best, least = (giver, others[taker], int(given[row]), int(column) - 1), float(worse[taker, row, column])
    return best


def _filled(held: Held) -> list[int]:
    return [number for number, positions in enumerate(held) if len(positions)]


def _takers(placed: Placed) -> Iterator[int]:
    """The slots of the replicas with the least to do, each once."""
    slots = placed.sharing.slots
    order = np.argsort(placed.seconds, kind="stable")[:TARGETS].tolist()
    yield from dict.fromkeys(slot for replica in order for slot in reversed(slots.above[replica]))


def _worse(
    placed: Placed, each: Array, giver: int, takers: Sequence[int], *, given: Array, tops: Mapping[int, float]
) -> Array:
    """Expected seconds of the slowest replica concerned after every move; float64 [T, x, 1 + J], infinity for none.

    Shapes: T slots that take, x buckets given, what returns: nothing, or a sequence of one of J buckets. Slots are
    nested or apart: if nested, the inner one's members do both. `tops`: seconds of the slowest member of a slot.
    """
    members, mine = placed.sharing.slots.members, tops[giver]
    away = each[giver, given + 1][:, None] - each[giver]  # [x, 1 + J]
    come = each[takers][:, given + 1, None] - each[takers][:, None]  # [T, x, 1 + J]
    worse = np.empty(come.shape)
    for turn, taker in enumerate(takers):
        outer, inner = members[min(giver, taker)], members[max(giver, taker)]  # the larger stand first
        theirs = tops[taker]
        if inner[0] not in outer:
            np.maximum(mine - away, theirs + come[turn], out=worse[turn])
            continue
        alone = _top(placed, tuple({*outer} - {*inner})) + (-away if giver < taker else come[turn])
        np.maximum(alone, (theirs if giver < taker else mine) + (come[turn] - away), out=worse[turn])
    held = np.array([[True, *map(bool, map(len, placed.held[taker]))] for taker in takers])
    worse[np.broadcast_to(~held[:, None], worse.shape)] = np.inf
    worse[:, np.arange(len(given)), given + 1] = np.inf
    return worse


def _top(placed: Placed, members: tuple[int, ...]) -> float:
    """Seconds of the slowest of these replicas."""
    return float(placed.seconds[list(members)].max())


def _try(placed: Placed, giver: int, taker: int, bucket: int, back: int) -> bool:
    """Move for good if everybody concerned then ends below the maximum."""
    mine, theirs = list(placed.held[giver]), list(placed.held[taker])
    theirs[bucket], mine[bucket] = _with(theirs[bucket], mine[bucket][-1]), mine[bucket][:-1]
    if back >= 0:
        mine[back], theirs[back] = _with(mine[back], theirs[back][-1]), theirs[back][:-1]
    after = placed.of_slots.copy()
    after[giver], after[taker] = placed.price(giver, tuple(mine)), placed.price(taker, tuple(theirs))
    slots = placed.sharing.slots
    concerned = sorted({*slots.members[giver], *slots.members[taker]})
    seconds = [float(after[list(slots.above[replica])].sum()) for replica in concerned]
    if not max(seconds) < placed.makespan * (1 - GAIN):
        return False
    placed.held[giver], placed.held[taker] = tuple(mine), tuple(theirs)
    placed.of_slots, placed.seconds[concerned] = after, seconds
    return True


def _with(positions: Array, one: int) -> Array:
    return np.insert(positions, np.searchsorted(positions, one), one)
