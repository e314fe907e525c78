"""Which bins a replica's sequences go to: few for throughput, more and even ones where a pipeline would wait.

With one stage the fewest bins are the cheapest where only the fixed part depends on them; so where best fit leaves more
than there must be, pairs are tried. Where every adapter run costs something, bins of single tenants are tried too. With
pp stages the replica also waits (pp - 1) times for its longest micro-batch, so smaller micro-batches can pay although
there are more of them. Tried are the token budget divided by 1, 2, 3, 4, 6, 8 (never below the longest sequence), each
packed by best-fit decreasing and again balanced over the same number of bins; the closed form of the pipeline decides.
Limits: which tenants share a replica, and how many a pipeline's micro-batch mixes, is not optimised.
"""

from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch
from policies.batching.bins import FEW, balanced, best_fit, best_fit_runs, by_pairs, by_tenant
from policies.batching.pack_prices import PackPrices

PAIRED = 1500  # bins times sequences: with more, looking for pairs takes more time than it saves; pipelines never do


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Sequences in bins, priced."""

    place: Array  # [n] the bin of each sequence
    widths: Array  # [k] tokens that each bin computes
    seconds: Array  # [k] stage seconds of each
    total: float  # seconds of the replica for all of them


def choose_bins(sequences: Batch, prices: PackPrices, splits: tuple[int, ...]) -> Bins:
    """The cheapest of the packings tried; sequences: longest first, at least one, none above the room."""
    return pack(sequences.length, sequences.tenant, prices, splits)


def pack(lengths: Array, tenants: Array, prices: PackPrices, splits: tuple[int, ...]) -> Bins:
    """The same for columns: lengths, descending, and tenants, [n] each."""
    sizes = prices.sizes(lengths)
    if prices.stages == 1:
        found = _priced(_fitted(sizes, tenants, prices, prices.room), lengths, tenants, prices)
        if prices.run and prices.align != "run" and len(found.widths) > 1 and len(lengths) <= FEW:
            place = by_tenant(sizes.tolist(), tenants.tolist(), prices.room)
            found = min(found, _priced(place, lengths, tenants, prices), key=_total)
        if len(found.widths) == 1 or prices.floor <= prices.fixed or found.seconds.min() > prices.floor:
            return found
        return _evened(found, lengths, tenants, prices)
    best: Bins | None = None
    costs = prices.sequence_seconds(lengths)
    linear, longest = float(costs.sum()), int(sizes[0])
    for limit in dict.fromkeys(max(prices.room // split, longest) for split in splits):
        place = _fitted(sizes, tenants, prices, limit)
        number = max(place) + 1
        slowest = prices.fixed + max(float(costs[0]), linear / number)
        if best is not None and linear + number * prices.fixed + (prices.stages - 1) * slowest >= best.total:
            continue
        found = _priced(place, lengths, tenants, prices)
        found = _evened(found, lengths, tenants, prices) if number > 1 else found
        best = found if best is None or found.total < best.total else best
    assert best is not None
    return best


def _total(bins: Bins) -> float:
    return bins.total


def _fitted(sizes: Array, tenants: Array, prices: PackPrices, limit: int) -> list[int]:
    """Few bins of `limit` tokens: best fit decreasing, and pairs where that may have left one too many."""
    if prices.align == "run":
        return best_fit_runs(sizes, tenants, limit, prices.round_to)
    place = best_fit(sizes, limit)
    last = max(place)
    if last * limit < sizes.sum() or (last + 1) * len(place) > PAIRED or prices.stages > 1:
        return place
    paired = by_pairs(sizes.tolist(), limit)
    return paired if max(paired) < last else place


def _evened(found: Bins, lengths: Array, tenants: Array, prices: PackPrices) -> Bins:
    """As many bins of about equal cost, where that is cheaper."""
    sizes, costs = prices.sizes(lengths).tolist(), prices.sequence_seconds(lengths).tolist()
    place = balanced(sizes, costs, len(found.widths), prices.room)
    if place is None:
        return found
    even = _priced(place, lengths, tenants, prices)
    return even if even.total < found.total and even.widths.max() <= prices.room else found


def _priced(placed: list[int], lengths: Array, tenants: Array, prices: PackPrices) -> Bins:
    place = np.array(placed)
    widths, seconds = prices.pack_seconds(place, lengths, tenants)
    waiting = (prices.stages - 1) * seconds.max() if prices.stages > 1 else 0.0
    return Bins(place, widths, seconds, float(seconds.sum() + waiting))
