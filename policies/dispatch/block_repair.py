"""Single sequences moved between blocks and replicas while the true maximum falls.

As `repair`, over slots instead of machines: a replica's seconds are those of all the slots it is in. A sequence leaves
one of the slots of the slowest replica for a slot of one with little to do, or changes places with one there; both
slots are formed again, and it stays if every replica of either then ends below the old maximum. Cost: one forming a
slot, two a move tried. Limits: which sequence of a bucket moves is not asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Bucket
from lobra.protocols import Batching, CostModel
from policies.dispatch.block_dealing import Sharing
from policies.evaluate import work_seconds

GAIN = 1e-9
CLOSE = 1e-3  # above the mean of all replicas: what is left is hardly worth its tries
TARGETS = 6  # replicas with the least to do, whose slots may take a sequence

Held = tuple[Array, ...]  # [J], positions in each bucket, ascending
Move = tuple[int, int, int, int]  # slot that gives, slot that takes, bucket given, bucket returned or -1


@dataclass(slots=True, eq=False)
class Placed:
    """Who holds which sequences, and what that takes; S slots, R replicas, J buckets."""

    buckets: tuple[Bucket, ...]
    sharing: Sharing
    batching: Batching
    cost: CostModel
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
        placed = cls(buckets, sharing, batching, cost, held, np.zeros(len(held)), np.zeros(len(slots.above)))
        placed.of_slots[:] = [placed.price(slot, positions) for slot, positions in enumerate(held)]
        placed.seconds[:] = slots.seconds(placed.of_slots)
        return placed

    @property
    def makespan(self) -> float:
        """Seconds of the slowest replica."""
        return float(self.seconds.max())

    def share(self, held: Held) -> tuple[Bucket, ...]:
        """These positions as parts of buckets."""
        return tuple(
            Bucket(bucket.width, bucket.sequences.take(positions))
            for bucket, positions in zip(self.buckets, held, strict=True)
            if len(positions)
        )

    def price(self, slot: int, held: Held) -> float:
        """True seconds of a slot if it held these positions."""
        if not any(map(len, held)):
            return 0.0
        machine = self.sharing.slots.machines[slot]
        work = self.batching.form(self.share(held), machine.replica, self.cost, group=machine.group)
        return work_seconds(work, machine.replica, self.cost)


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
    """What a sequence of each bucket is expected to add to a slot, float64 [J]; infinity where it does not fit."""
    loads = sharing.sizes[sharing.slots.kind[slot]].get(int(sharing.slots.size[slot]))
    if loads is None:
        return np.full(len(sharing.counts), np.inf)
    return np.where(loads.capacity > 0, loads.each, np.inf)


def _promising(placed: Placed, each: Array, refused: set[Move]) -> Move | None:
    """The move with the least expected maximum over all replicas it concerns, not refused yet."""
    slowest = int(np.argmax(placed.seconds))
    best, least = None, placed.makespan * (1 - GAIN)
    slots, takers = placed.sharing.slots, [taker for taker in _takers(placed) if np.isfinite(each[taker]).any()]
    tops = np.array([placed.seconds[list(members)].max() for members in slots.members])
    for giver in slots.above[slowest]:
        given = _filled(placed.held[giver])
        for taker in takers if given else ():
            if taker == giver:
                continue
            back = [-1, *_filled(placed.held[taker])]
            away = each[giver][given][:, None] - np.append(each[giver], 0.0)[back]  # -1 reads the last: nothing
            come = each[taker][given][:, None] - np.append(each[taker], 0.0)[back]
            worse = _worse(placed, giver, taker, tops=tops, away=away, come=come)
            if not worse.min() < least:
                continue
            for place in np.argsort(worse, axis=None, kind="stable").tolist():
                row, column = divmod(place, len(back))
                if not worse[row, column] < least:
                    break
                move = (giver, taker, given[row], back[column])
                if move not in refused and given[row] != back[column]:
                    best, least = move, float(worse[row, column])
                    break
    return best


def _filled(held: Held) -> list[int]:
    return [number for number, positions in enumerate(held) if len(positions)]


def _takers(placed: Placed) -> Iterator[int]:
    """The slots of the replicas with the least to do, each once."""
    slots = placed.sharing.slots
    order = np.argsort(placed.seconds, kind="stable")[:TARGETS].tolist()
    yield from dict.fromkeys(slot for replica in order for slot in reversed(slots.above[replica]))


def _worse(placed: Placed, giver: int, taker: int, *, tops: Array, away: Array, come: Array) -> Array:
    """Expected seconds of the slowest replica of two slots if one loses `away` and the other gains `come`.

    tops: of each slot's slowest member, [S]. Slots are nested or apart: if nested, the inner one's members do both.
    """
    outer, inner = sorted((giver, taker))  # the larger stand first
    members = placed.sharing.slots.members
    if members[inner][0] in members[outer]:
        others = [replica for replica in members[outer] if replica not in members[inner]]
        lone = placed.seconds[others].max() + (-away if outer == giver else come)
        worse: Array = np.maximum(lone, tops[inner] + (come - away))
    else:
        worse = np.maximum(tops[giver] - away, tops[taker] + come)
    return worse


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
