"""Exact repair of packed shares: slow replicas hand over sequences against others, and both sides are packed again.

What a slow replica should be rid of is half the difference to a fast one, in tokens. Tried are a few of its sequences
that make up as much, and one longer sequence against some of the other side's that make up the rest: whole packs of
long sequences can be exchanged for many short ones. Both sides are packed and priced as they will run; what leaves both
below what the slow one took stays. Where the slowest has nothing to exchange, the slowest of another kind may have, and
so open the way. Cost: two packings a try, some 0.1 ms each for a hundred sequences. Limits: packs are only seen by
trying, and chains over three replicas only link by link.
"""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from policies.batching.pack_prices import PackPrices
from policies.dispatch.packed_shares import PackedShares

CLOSE = 2.5e-3  # above the mean of all replicas: what is left is hardly worth its tries
SAMPLE = 4  # long sequences of a slow replica that are tried with one taker, evenly over their lengths
MANY = 12  # sequences that go together


def repair_packed(shares: PackedShares, tries: int) -> None:
    """Lower the slowest replica's seconds while at most `tries` exchanges are tried; never slower than before."""
    while tries > 0:
        for giver, taker, gone, back in _promising(shares):
            tries -= 1
            if shares.exchange(giver, taker, gone, back):
                break
            if tries == 0:
                return
        else:
            return


def _promising(shares: PackedShares) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """(the slowest, taker, sequences given, sequences returned), the fastest takers first; none where all are close."""
    order = np.argsort(shares.seconds, kind="stable")
    slowest = int(order[-1])
    if shares.seconds[slowest] <= shares.seconds.mean() * (1 + CLOSE):
        return
    _, firsts = np.unique(shares.kind[order], return_index=True)
    for taker in dict.fromkeys([*order[np.sort(firsts)].tolist(), *order[:2].tolist()]):  # of each kind, and the two
        if shares.seconds[taker] < shares.seconds[slowest]:
            for gone, back in _bundles(shares, slowest, taker):
                yield slowest, taker, gone, back


def _bundles(shares: PackedShares, giver: int, taker: int) -> Iterator[tuple[list[int], list[int]]]:
    """Sequences to give and to be returned that would leave both with about the same seconds."""
    mine, theirs = shares.prices[shares.kind[giver]], shares.prices[shares.kind[taker]]
    apart = shares.seconds[giver] - shares.seconds[taker]
    tokens = int(apart / (_per_token(mine) + _per_token(theirs)))
    offered, lengths = _that_fit(shares, giver, theirs.room)
    gone = _making_up(offered, lengths, tokens)
    if gone:
        yield gone, []
    longer = bisect_left(lengths, -tokens)
    wanted = _that_fit(shares, taker, mine.room)
    for place in np.unique(np.linspace(0, longer - 1, min(longer, SAMPLE), dtype=np.int64)).tolist():
        yield [offered[place]], _making_up(*wanted, -lengths[place] - tokens)


def _that_fit(shares: PackedShares, machine: int, room: int) -> tuple[list[int], list[int]]:
    """What a replica holds and `room` too: positions, longest first, and lengths below zero, so that they ascend."""
    held = shares.held[machine]
    lengths = shares.sequences.length[held]
    first = int(np.searchsorted(-lengths, -room))
    return held[first:].tolist(), (-lengths[first:]).tolist()


def _making_up(held: list[int], lengths: list[int], tokens: int) -> list[int]:
    """Few of these whose lengths make up about so many tokens, not more: always the longest that is not too long."""
    chosen: list[int] = []
    place = 0
    while len(chosen) < MANY:
        place = bisect_left(lengths, -tokens, place)
        if place == len(held):
            break
        chosen.append(held[place])
        tokens += lengths[place]
        place += 1
    return chosen


def _per_token(prices: PackPrices) -> float:
    """Seconds that a token costs in a full pack, squares apart."""
    return prices.token + (prices.fixed + prices.run) / prices.room
