"""Which bins a replica's sequences go to: few for throughput, more and even ones where a pipeline would wait.

With one stage the fewest bins are the cheapest: only the fixed part depends on them. With pp stages the replica also
waits (pp - 1) times for its longest micro-batch, so smaller micro-batches can pay although there are more of them.
Tried are the token budget divided by 1, 2, 3, 4, 6, 8 (never below the longest sequence), each packed by best-fit
decreasing and again balanced over the same number of bins; the closed form of the pipeline decides.
"""

from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from policies.batching.bins import balanced, best_fit


@dataclass(frozen=True, slots=True)
class PackPrices:
    """Stage seconds of a pack on one replica or group: its rates, floor and number of stages, rounding of its width."""

    floor: float
    fixed: float
    run: float
    token: float
    square: float
    stages: int
    room: int  # tokens that a pack may hold
    round_to: int  # its width is a multiple of this, or the room

    def widths(self, tokens: Array) -> Array:
        """Tokens computed for packs that hold so many; elementwise."""
        rounded: Array = np.minimum(-(-tokens // self.round_to) * self.round_to, self.room)
        return rounded

    def sequence_seconds(self, lengths: Array) -> Array:
        """What sequences add to the pack that takes them, its fixed part apart; elementwise."""
        lengths = np.asarray(lengths, dtype=np.float64)
        seconds: Array = self.token * lengths + self.square * lengths**2
        return seconds


def pack_prices(cost: CostModel, config: ReplicaConfig, shards: int, room: int, round_to: int) -> PackPrices:
    """The prices of packs; BadInput where the cost model has none."""
    rates = cost.rates(config, np.array([room]), shards)
    pack = rates.pack
    if pack is None:
        raise BadInput(
            f"batching: the cost model has no price for packs on {config}, its form is made for padded micro-batches; "
            "choose padded batching or a cost form in tokens and squares"
        )
    return PackPrices(rates.floor, pack.fixed, pack.run, pack.token, pack.square, config.pp, room, round_to)


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Sequences in bins, priced."""

    place: Array  # [n] the bin of each sequence
    widths: Array  # [k] tokens that each bin computes
    seconds: Array  # [k] stage seconds of each
    total: float  # seconds of the replica for all of them


def choose_bins(sequences: Batch, prices: PackPrices, splits: tuple[int, ...]) -> Bins:
    """The cheapest of the packings tried; sequences: longest first, at least one, none above the room."""
    lengths, costs = sequences.length.tolist(), prices.sequence_seconds(sequences.length).tolist()
    linear, longest = sum(costs), lengths[0]
    best: Bins | None = None
    tried: set[int] = set()
    for split in splits if prices.stages > 1 else (1,):
        limit = max(prices.room // split, longest)
        if limit in tried:
            continue
        tried.add(limit)
        place = best_fit(lengths, limit)
        number = max(place) + 1
        slowest = prices.fixed + max(costs[0], linear / number)
        if best is not None and linear + number * prices.fixed + (prices.stages - 1) * slowest >= best.total:
            continue
        found = _priced(place, sequences, prices)
        best = found if best is None or found.total < best.total else best
        if number > 1 and (prices.stages > 1 or found.seconds.min() <= prices.floor):
            even = balanced(lengths, costs, number, prices.room)
            found = found if even is None else _priced(even, sequences, prices)
            best = found if found.total < best.total else best
    assert best is not None
    return best


def _priced(placed: list[int], sequences: Batch, prices: PackPrices) -> Bins:
    place = np.array(placed)
    length = sequences.length.astype(np.int64)
    counts = np.bincount(place)
    widths = prices.widths(np.bincount(place, weights=length).astype(np.int64))
    alone = counts == 1  # a row with one sequence attends over its whole width
    squares = np.where(
        alone, widths.astype(np.float64) ** 2, np.bincount(place, weights=length.astype(np.float64) ** 2)
    )
    seconds = prices.fixed + prices.token * widths + prices.square * squares
    if prices.run:
        pairs = np.unique(place * (int(sequences.tenant.max()) + 1) + sequences.tenant)
        seconds += prices.run * np.bincount(pairs // (int(sequences.tenant.max()) + 1))
    seconds = np.maximum(seconds, prices.floor)
    return Bins(place, widths, seconds, float(seconds.sum() + (prices.stages - 1) * seconds.max()))
