"""What a sequence will cost in a pack, before anybody knows the pack.

Its own seconds, and its share of what every pack pays: the fixed part, rounding, adapter runs, and the floor where
full packs lie below it. A sequence of s tokens is charged s / (fill * room) of that, one longer than half the room the
whole, because it seldom shares its bin well.
"""

from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch
from policies.batching.pack_prices import PackPrices


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Seconds of sequences [n] and of a full pack."""

    each: Array  # float64 [n], expected
    least: Array  # float64 [n], what they add at the least
    full: float


def estimate(sequences: Batch, prices: PackPrices, fill: float) -> Estimate:
    """Prices of these sequences if packs are filled to a share `fill`; whether they fit is not asked."""
    length = sequences.length.astype(np.float64)
    seconds = prices.sequence_seconds(sequences.length)
    full = fill * prices.room
    per_token = float(seconds.sum() / max(1.0, length.sum()))
    overhead = prices.fixed + _run_seconds(sequences, prices, full)
    if prices.align == "row":
        overhead += prices.token * min((prices.round_to - 1) / 2, prices.room - full)
    shared = max(overhead, prices.floor - per_token * full)
    alone = np.maximum(overhead, prices.floor - seconds)
    each = seconds + np.where(2 * length > prices.room, alone, shared * length / full)
    least = seconds + (prices.fixed + prices.run) * length / prices.room  # where every pack is full, and of one tenant
    return Estimate(each, least, shared + per_token * full)


def among_alike(lengths: Array, prices: PackPrices) -> Array:
    """What sequences cost among others of about their length, float64 [n]: 1 / k of a pack where k of them fit."""
    sizes = prices.sizes(lengths)
    share: Array = _overhead(prices) / np.maximum(prices.room // sizes, 1)
    return share + prices.sequence_seconds(lengths)


def in_company(lengths: Array, prices: PackPrices) -> Array:
    """What sequences cost among just these others on replicas of one kind, to deal them out evenly; float64 [n].

    Where the short ones fill what the long ones leave of their bins, bins are as full as can be, and everybody pays for
    the tokens he takes; otherwise every long one opens a bin, and the short ones come in for nothing.
    """
    sizes = prices.sizes(lengths)
    long = 2 * sizes > prices.room
    left = int(long.sum()) * prices.room - int(sizes[long].sum())
    if int(sizes[~long].sum()) >= left:
        return among_any(lengths, prices)
    opened: Array = _overhead(prices) * long
    return opened + prices.sequence_seconds(lengths)


def among_any(lengths: Array, prices: PackPrices) -> Array:
    """What sequences cost where short ones fill every pack, float64 [n]: the part of it that they take."""
    share: Array = _overhead(prices) * prices.sizes(lengths) / prices.room
    return share + prices.sequence_seconds(lengths)


def _overhead(prices: PackPrices) -> float:
    """What a full pack pays besides its sequences, with one adapter run."""
    return max(prices.fixed + prices.run, prices.floor - prices.token * prices.room)


def _run_seconds(sequences: Batch, prices: PackPrices, full: float) -> float:
    """Expected adapter runs of a full pack, priced: tenants that occur among so many sequences drawn at random."""
    rounding = prices.token * (prices.round_to - 1) / 2 if prices.align == "run" else 0.0
    if not (prices.run or rounding) or not len(sequences):
        return 0.0
    drawn = full / float(sequences.length.mean())
    shares = np.bincount(sequences.tenant) / len(sequences)
    return (prices.run + rounding) * max(1.0, float(np.sum(1 - (1 - shares) ** drawn)))
