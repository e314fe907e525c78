"""Who holds which sequences where rows are packed, and what that takes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch
from policies.batching.pack_prices import PackPrices
from policies.batching.packing import Bins, pack

GAIN = 1e-9


@dataclass(slots=True, eq=False)
class PackedShares:
    """R replicas of K kinds, and n sequences, longest first."""

    sequences: Batch  # [n]; equal lengths by tenant, then index
    prices: tuple[PackPrices, ...]  # [K]
    splits: tuple[int, ...]
    each: Array  # float64 [K, n], expected seconds of every sequence on every kind
    kind: Array  # int64 [R]
    held: list[Array]  # [R], positions of sequences, ascending
    seconds: Array  # float64 [R]

    def bins(self, kind: int, held: Array) -> Bins:
        """The packs of a replica of that kind if it held these sequences, at least one."""
        return pack(self.sequences.length[held], self.sequences.tenant[held], self.prices[kind], self.splits)

    def price_on(self, kind: int, held: Array) -> float:
        """True seconds of a replica of that kind if it held these sequences."""
        return self.bins(kind, held).total if len(held) else 0.0

    def exchange(self, giver: int, taker: int, gone: Sequence[int], back: Sequence[int]) -> bool:
        """Whether both then end below the giver's seconds; if so, it is done."""
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


def exchanged(held: Array, gone: Sequence[int], come: Sequence[int]) -> Array:
    """Ascending positions without some of them and with others."""
    kept = np.ones(len(held), dtype=bool)
    kept[np.searchsorted(held, gone)] = False
    remaining = held[kept]
    if not len(come):
        return remaining
    arrived = np.sort(come)
    return np.insert(remaining, np.searchsorted(remaining, arrived), arrived)
