"""Packing: rows of many sequences behind one another, up to the token budget, without padding.

The idea: with attention over each sequence apart, a row of several sequences needs no padding; its cost is
max(floor, fixed + run * adapter runs + token * tokens + square * sum of squared lengths), so sequences can be priced
one by one for dispatch, and a micro-batch is one row as full as possible. Dispatch exchanges sequences of a length
class; form() then packs by best-fit decreasing (see `packing`). Sources: LobRA (arXiv 2509.01193) pads and leaves
packing open; best-fit decreasing is Johnson's (1973), the prices of a class are our own.

Limits. Before packing nobody knows the micro-batches, so loads() charges the fixed part by share: s / (fill * budget)
of it for a sequence of s tokens, the whole for one longer than half the budget, which seldom shares its bin well.
A replica with very few sequences costs more than that, and one that has fewer micro-batches than stages costs less: the
bubble is charged for full micro-batches, while form() would cut smaller ones. The number of adapter runs is estimated
as if sequences were drawn at random from the buckets, and packing does not try to reduce it. A bin may hold any mix of
sequences up to the budget: memory is assumed to depend on tokens alone. Packed attention is assumed to cost what its
squared lengths say; short sequences may cost more.
"""

from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch, Bucket, concatenate
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, Replica
from lobra.protocols import CostModel
from lobra.rates import Loads
from policies.batching.buckets import cut, distinct_budgets, refuse_too_long, upper_ends
from policies.batching.packing import Bins, PackPrices, choose_bins, pack_prices

UNLIMITED = 1 << 31  # sequences "of one micro-batch" in the Loads: their prices already hold the fixed part


@dataclass(frozen=True, slots=True)
class Packed:
    """One row a micro-batch, filled up to the token budget."""

    class_step: int = 256  # tokens; upper ends of the length classes that dispatch counts
    fill: float = 0.97  # share of the budget that best-fit decreasing is expected to fill, for loads()
    round_to: int = 1  # widths are multiples of this (or the budget): 128 suits kernels with tiles
    splits: tuple[int, ...] = (1, 2, 3, 4, 6, 8)  # divisors of the budget that a pipeline may profit from

    def __post_init__(self) -> None:
        if self.class_step < 1 or self.round_to < 1:
            raise BadInput(f"packed: class_step {self.class_step} and round_to {self.round_to} must be at least 1")
        if not 0 < self.fill <= 1:
            raise BadInput(f"packed: fill is {self.fill}; it is a share of the budget, above 0 and at most 1")
        if self.splits[:1] != (1,) or list(self.splits) != sorted(set(self.splits)):
            raise BadInput(f"packed: splits is {self.splits}; give divisors of the budget, ascending from 1, each once")

    def bucket(self, batch: Batch, plan: DeploymentPlan, cost: CostModel) -> tuple[Bucket, ...]:
        """Length classes: upper ends are multiples of class_step, or the budgets below which they would reach."""
        del cost
        if not len(batch):
            return ()
        lengths = np.unique(batch.length)
        return cut(batch, np.unique(upper_ends(lengths, self.class_step, distinct_budgets(plan))))

    def loads(self, buckets: tuple[Bucket, ...], replica: Replica, cost: CostModel, shards: int = 1) -> Loads:
        """The mean price of a sequence of each class, its share of the fixed part included."""
        room = replica.budget * shards
        prices = pack_prices(cost, replica.config, shards, room, self.round_to)
        counts = np.array([bucket.count for bucket in buckets], dtype=np.int64)
        which = np.repeat(np.arange(len(buckets)), counts)
        everything = concatenate(0, [bucket.sequences for bucket in buckets])
        length = everything.length.astype(np.float64)
        seconds = prices.sequence_seconds(length)
        full = self.fill * room
        per_token = seconds.sum() / max(1.0, length.sum())
        overhead = prices.fixed + prices.token * (self.round_to - 1) / 2 + self._run_seconds(everything, prices, full)
        shared = max(overhead, prices.floor - per_token * full)
        alone = np.maximum(overhead, prices.floor - seconds)
        price = seconds + np.where(2 * length > room, alone, shared * length / full)
        widths = np.array([bucket.width for bucket in buckets], dtype=np.int64)
        means = [
            np.bincount(which, weights=of_each, minlength=len(buckets)) / np.maximum(counts, 1)
            for of_each in (price, seconds + prices.fixed * length / room)  # the latter where every pack is full
        ]
        return Loads(
            capacity=np.where(widths <= room, UNLIMITED, 0),
            fixed=np.zeros(len(buckets)),
            each=means[0],
            floor=0.0,
            stages=replica.config.pp,
            longest=shared + per_token * full,
            least=means[1],
        )

    def form(
        self, share: tuple[Bucket, ...], replica: Replica, cost: CostModel, group: tuple[int, ...] = ()
    ) -> tuple[MicroBatch, ...]:
        """Micro-batches of one row, sequences by tenant then index; costliest first, ties in order of packing.

        Infeasible if a sequence exceeds the budget of the replica (or of the group together).
        """
        share = tuple(bucket for bucket in share if bucket.count)
        if not share:
            return ()
        shards = max(1, len(group))
        room = replica.budget * shards
        refuse_too_long(share, replica, room, [int(bucket.sequences.length.max()) for bucket in share])
        sequences = concatenate(share[0].sequences.step, [bucket.sequences for bucket in share])
        sequences = sequences.take(np.lexsort((sequences.index, sequences.tenant, -sequences.length)))
        prices = pack_prices(cost, replica.config, shards, room, self.round_to)
        return _rows(sequences, choose_bins(sequences, prices, self.splits), group)

    @staticmethod
    def _run_seconds(sequences: Batch, prices: PackPrices, full: float) -> float:
        """Expected adapter runs of a full pack, priced: tenants that occur among so many sequences drawn at random."""
        if not prices.run or not len(sequences):
            return 0.0
        drawn = full / float(sequences.length.mean())
        shares = np.bincount(sequences.tenant) / len(sequences)
        return prices.run * max(1.0, float(np.sum(1 - (1 - shares) ** drawn)))


def _rows(sequences: Batch, bins: Bins, group: tuple[int, ...]) -> tuple[MicroBatch, ...]:
    """The bins as micro-batches in the order of execution."""
    execution: Array = np.lexsort((-bins.widths, -bins.seconds))
    turn = np.empty_like(execution)
    turn[execution] = np.arange(len(execution))
    turns = turn[bins.place]
    order = np.lexsort((sequences.index, sequences.tenant, turns))
    refs = sequences.take(order).refs()
    edges = np.concatenate([[0], np.cumsum(np.bincount(turns))]).tolist()
    widths = bins.widths[execution].tolist()
    return tuple(
        MicroBatch((tuple(refs[start:end]),), width, group)
        for width, start, end in zip(widths, edges[:-1], edges[1:], strict=True)
    )
