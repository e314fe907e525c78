"""Exact repair of packed shares: the slowest replica moves or swaps sequences, and both sides are packed again.

Replicas hold sequences and the true seconds of their packs. Moves off the slowest replica and swaps with it are ranked
by what they promise: linear parts exactly, packs by ceil(tokens / room), and for pipelines by the expected share of a
pack. The most promising are packed and priced as they will run; the first that leaves both replicas below the old
maximum stays. Cost: two packings a try, some 0.1 ms each for a hundred sequences. Limits: only a sample of the
sequences of each side is looked at, and chains over three replicas are not tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch
from policies.batching.pack_prices import PackPrices
from policies.batching.packing import pack
from policies.dispatch.packed_dealing import exchanged

GAIN = 1e-9
CLOSE = 1.5e-3  # above the mean of all replicas: what is left is hardly worth its tries
SAMPLE = 24  # sequences of either side that are looked at, evenly over their lengths
PROMISING = 3  # exchanges with one replica that are tried before the next one is asked


@dataclass(slots=True, eq=False)
class PackedShares:
    """Who holds which sequences, and what that takes; R replicas of K kinds, n sequences, longest first."""

    sequences: Batch  # [n]; equal lengths by tenant, then index
    prices: tuple[PackPrices, ...]  # [K]
    splits: tuple[int, ...]
    each: Array  # float64 [K, n + 1], expected seconds of every sequence on every kind; the last, 0, is of none
    kind: Array  # int64 [R]
    held: list[Array]  # [R], positions of sequences, ascending
    seconds: Array  # float64 [R]

    def price_on(self, kind: int, held: Array) -> float:
        """True seconds of a replica of that kind if it held these sequences."""
        if not len(held):
            return 0.0
        return pack(self.sequences.length[held], self.sequences.tenant[held], self.prices[kind], self.splits).total

    def exchange(self, giver: int, taker: int, gone: int, back: int) -> bool:
        """For good if both then end below the giver's seconds; `back` is -1 where nothing returns."""
        limit = self.seconds[giver] * (1 - GAIN)
        mine = exchanged(self.held[giver], gone, back)
        after = self.price_on(self.kind[giver], mine)
        if not after < limit:
            return False
        theirs = exchanged(self.held[taker], back, gone)
        other = self.price_on(self.kind[taker], theirs)
        if not other < limit:
            return False
        self.held[giver], self.held[taker] = mine, theirs
        self.seconds[giver], self.seconds[taker] = after, other
        return True


def repair_packed(shares: PackedShares, tries: int) -> None:
    """Lower the slowest replica's seconds while at most `tries` exchanges are tried; never slower than before.

    Ends where the slowest is as fast as replicas are on average: exchanges one for one gain no more.
    """
    while tries > 0:
        slowest = int(np.argmax(shares.seconds))
        if shares.seconds[slowest] <= shares.seconds.mean() * (1 + CLOSE):
            return
        for exchange in _promising(shares, slowest):
            tries -= 1
            if shares.exchange(slowest, *exchange):
                break
            if tries == 0:
                return
        else:
            return


def _promising(shares: PackedShares, slowest: int) -> Iterator[tuple[int, int, int]]:
    """(taker, sequence given, sequence returned or -1), replica by replica, the most promising of each first."""
    limit = float(shares.seconds[slowest]) * (1 - GAIN)
    for taker in _takers(shares, slowest):
        given, back, worse = _ranked(shares, slowest, taker)
        flat = worse.ravel()
        count = min(PROMISING, len(flat))
        best = np.argpartition(flat, count - 1)[:count] if count else np.zeros(0, dtype=np.int64)
        for place in best[np.argsort(flat[best], kind="stable")].tolist():
            if flat[place] < limit:
                row, column = divmod(place, len(back))
                yield taker, int(given[row]), int(back[column])


def _takers(shares: PackedShares, slowest: int) -> list[int]:
    """The two with the least to do, and the one of every other kind."""
    order = np.argsort(shares.seconds, kind="stable")
    order = order[order != slowest]
    _, firsts = np.unique(shares.kind[order], return_index=True)
    return list(dict.fromkeys([*order[:2].tolist(), *order[np.sort(firsts)].tolist()]))


def _ranked(shares: PackedShares, giver: int, taker: int) -> tuple[Array, Array, Array]:
    """Sequences to give [a] and to be returned [b] (-1: none), and the slower side's expected seconds [a, b]."""
    mine, theirs = _some(shares.held[giver]), _some(shares.held[taker])
    lengths = shares.sequences.length
    mine = mine[lengths[mine] <= shares.prices[shares.kind[taker]].room]
    theirs = np.append(theirs[lengths[theirs] <= shares.prices[shares.kind[giver]].room], -1)
    after = _expected(shares, giver, theirs[None, :], mine[:, None])
    other = _expected(shares, taker, mine[:, None], theirs[None, :])
    return mine, theirs, np.maximum(after, other)


def _some(held: Array) -> Array:
    """Between SAMPLE and twice as many of these, or all, evenly spread."""
    return held[:: max(1, len(held) // SAMPLE)]


def _expected(shares: PackedShares, machine: int, more: Array, less: Array) -> Array:
    """Seconds of a machine with one sequence more and one less, broadcast; -1 is none."""
    kind = shares.kind[machine]
    prices = shares.prices[kind]
    if prices.stages > 1:
        expected: Array = shares.seconds[machine] + (shares.each[kind][more] - shares.each[kind][less])
        return expected
    lengths = shares.sequences.length
    sizes = [np.where(which < 0, 0, prices.sizes(lengths[which])) for which in (more, less)]
    linear = [np.where(which < 0, 0.0, prices.sequence_seconds(lengths[which])) for which in (more, less)]
    tokens = int(prices.sizes(lengths[shares.held[machine]]).sum())
    packs = -(-(tokens + sizes[0] - sizes[1]) // prices.room) + (-tokens // prices.room)
    after: Array = shares.seconds[machine] + (linear[0] - linear[1] + prices.fixed * packs)
    return after
