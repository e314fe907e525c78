"""The exact choice of bucket boundaries: which widths make the fewest computed tokens, or the least computed price.

Sequences are grouped by the candidate width they are rounded up to, so the dynamic programme of the paper (Eq. 4) runs
over U distinct candidates instead of n sequences: cost_j[i] = min over k < i of cost_{j-1}[k] + u_i (C_i - C_k), with
u the ascending candidates (or their prices, ascending too) and C the cumulated counts. The cost u_i (C_i - C_k) is
Monge, so the best k grows with i; and one bucket more never makes a prefix dearer, so k >= i never wins and u_i C_i can
wait until after the minimum. A layer is a few dense minima of differences: at the ends of blocks of about sqrt(U)
positions first, then inside each block over the window that its ends leave. Where a boundary is forced, no bucket may
reach across it; that cuts blocks and windows and leaves the rest as it is. O(R U sqrt(U)) at memory speed.
"""

from dataclasses import dataclass

import numpy as np

from lobra.batch import Array

STRIDE = 128  # positions of a block: the matrix of its window stays in the cache
KEPT = 512  # candidates up to which all products width * count are kept


def choose_boundaries(
    candidates: Array, counts: Array, number: int, *, prices: Array | None = None, forced: Array | None = None
) -> Array:
    """The boundaries, at most `number` of the candidates, that minimise padded tokens; ascending, the last included.

    candidates: [U] distinct widths, ascending; counts: [U] sequences (or probabilities) of each, above 0; prices: [U],
    not descending, what a sequence padded to a candidate costs instead of its tokens; forced: candidates that must be
    boundaries, fewer than `number`. Among equal choices the one whose last buckets are wider wins.
    """
    candidates = np.asarray(candidates)
    width = np.concatenate([[0.0], candidates if prices is None else prices])
    count = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
    last = len(candidates)
    fences = np.zeros(0, dtype=np.int64) if forced is None else np.searchsorted(candidates, np.unique(forced)) + 1
    fences = np.concatenate([[0], fences[fences < last]])
    if len(fences) > number:
        raise ValueError(f"{len(fences) - 1} forced boundaries and the last one are more than {number}")
    lines = _Lines(width, count, _blocks(fences, last))
    costs = [np.where(np.arange(last + 1) <= (fences[1] if len(fences) > 1 else last), width * count, np.inf)]
    for _ in range(min(number, last) - 2):
        costs.append(lines.layer(costs[-1]))
    ends = [last]
    for cost in reversed(costs[: number - 1]):
        end = ends[-1]
        low = int(fences[np.searchsorted(fences, end) - 1])
        ends.append(low + int(np.argmin(cost[low:end] - count[low:end] * width[end])))
        if not ends[-1]:
            break
    chosen: Array = candidates[[end - 1 for end in reversed(ends) if end]]
    return chosen


@dataclass(frozen=True, slots=True)
class _Block:
    """Neighbouring positions with the same earliest begin of their last bucket."""

    first: int
    last: int
    low: int  # the earliest begin: where the bucket before the last forced boundary ends


def _blocks(fences: Array, last: int) -> tuple[_Block, ...]:
    edges = np.unique(np.concatenate([np.arange(0, last, STRIDE), fences, [last]]))
    lows = fences[np.searchsorted(fences, edges[1:]) - 1].tolist()
    return tuple(_Block(*block) for block in zip((edges[:-1] + 1).tolist(), edges[1:].tolist(), lows, strict=True))


class _Lines:
    """What a bucket that begins behind candidate k and ends at candidate i costs, less a term of i alone."""

    def __init__(self, width: Array, count: Array, blocks: tuple[_Block, ...]) -> None:
        self._width, self._count, self._blocks = width, count, blocks
        self._kept = np.multiply.outer(count, width) if len(width) <= KEPT else None  # [k, i]
        self._whole = width * count
        self._room = np.empty((len(width), STRIDE))

    def layer(self, cost: Array) -> Array:
        """The least cost of the first i candidates, [U + 1], with one bucket more than `cost` allows."""
        best = np.zeros(len(cost))
        begin = 0
        for block, choice in zip(self._blocks, self._choices(cost), strict=True):
            begin, end = max(begin, block.low), choice + 1
            inside = slice(block.first, block.last + 1)
            options = self._room[: end - begin, : block.last + 1 - block.first]
            np.subtract(cost[begin:end, None], self._products(slice(begin, end), inside), out=options)
            np.minimum.reduce(options, axis=0, out=best[inside])
            begin = choice
        best += self._whole
        return best

    def _choices(self, cost: Array) -> list[int]:
        """The best k at the last position of every block; where none is finite, the last that could be."""
        choices, bound = [], len(cost)
        for block in reversed(self._blocks):
            begins = slice(block.low, min(block.last, bound))
            options = cost[begins] - self._count[begins] * self._width[block.last]
            place = int(options.argmin())
            choices.append(block.low + place if options[place] < np.inf else begins.stop - 1)
            bound = choices[-1] + 1
        return choices[::-1]

    def _products(self, begins: slice, ends: slice) -> Array:
        if self._kept is not None:
            return self._kept[begins, ends]
        products: Array = np.multiply.outer(self._count[begins], self._width[ends])
        return products
