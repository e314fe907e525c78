"""Packing: rows of many sequences behind one another, up to the token budget, without padding.

The idea: with attention over each sequence apart, a row of several sequences needs no padding; its cost is
max(floor, fixed + run * adapter runs + token * tokens + square * sum of squared lengths), so sequences can be priced
one by one for dispatch, and a micro-batch is one row as full as possible. Dispatch exchanges sequences of a length
class; form() then packs by best-fit decreasing, or better (see `packing`). Sources: LobRA (arXiv 2509.01193) pads and
leaves packing open; best-fit decreasing is Johnson's (1973), the prices of a class are our own.

Limits. Before packing nobody knows the micro-batches, so loads() charges the fixed part by share: s / (fill * budget)
of it for a sequence of s tokens, the whole for one longer than half the budget, which seldom shares its bin well.
A replica with very few sequences costs more than that, and one that has fewer micro-batches than stages costs less: the
bubble is charged for full micro-batches, while form() would cut smaller ones. The number of adapter runs is estimated
as if sequences were drawn at random from the buckets; packing on one stage then finds fewer, by giving tenants bins of
their own. A bin may hold any mix of sequences up to the budget: memory is assumed to depend on tokens alone. Packed
attention is assumed to cost what its squared lengths say; short sequences may cost more.
"""

from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch, Bucket, concatenate
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, Replica
from lobra.protocols import CostModel
from lobra.rates import Loads
from policies.batching.buckets import cut, distinct_budgets, refuse_too_long, upper_ends
from policies.batching.pack_estimate import estimate
from policies.batching.pack_prices import Align, PackPrices, pack_prices
from policies.batching.packing import Bins, choose_bins

UNLIMITED = 1 << 31  # sequences "of one micro-batch" in the Loads: their prices already hold the fixed part


@dataclass(frozen=True, slots=True)
class Packed:
    """One row a micro-batch, filled up to the token budget."""

    class_step: int = 256  # tokens; upper ends of the length classes that dispatch counts
    fill: float = 0.97  # share of the budget that best-fit decreasing is expected to fill, for loads()
    round_to: int = 1  # what `align` names takes a multiple of this (or the budget): 128 suits kernels with tiles
    splits: tuple[int, ...] = (1, 2, 3, 4, 6, 8)  # divisors of the budget that a pipeline may profit from
    align: Align = "row"  # what is rounded up: the row, every tenant's run in it, or every sequence

    def __post_init__(self) -> None:
        if self.class_step < 1 or self.round_to < 1:
            raise BadInput(f"packed: class_step {self.class_step} and round_to {self.round_to} must be at least 1")
        if not 0 < self.fill <= 1:
            raise BadInput(f"packed: fill is {self.fill}; it is a share of the budget, above 0 and at most 1")
        if self.splits[:1] != (1,) or list(self.splits) != sorted(set(self.splits)):
            raise BadInput(f"packed: splits is {self.splits}; give divisors of the budget, ascending from 1, each once")
        if self.align not in ("row", "run", "sequence"):
            raise BadInput(f"packed: align is {self.align!r}; choose row, run or sequence")

    def bucket(self, batch: Batch, plan: DeploymentPlan, cost: CostModel) -> tuple[Bucket, ...]:
        """Length classes: upper ends are multiples of class_step, or the budgets below which they would reach."""
        del cost
        if not len(batch):
            return ()
        lengths = np.unique(batch.length)
        return cut(batch, np.unique(upper_ends(lengths, self.class_step, distinct_budgets(plan))))

    def loads(self, buckets: tuple[Bucket, ...], replica: Replica, cost: CostModel, shards: int = 1) -> Loads:
        """The mean price of a sequence of each class, its share of the fixed part included."""
        prices = self.prices(replica, cost, shards)
        counts = np.array([bucket.count for bucket in buckets], dtype=np.int64)
        which = np.repeat(np.arange(len(buckets)), counts)
        expected = estimate(concatenate(0, [bucket.sequences for bucket in buckets]), prices, self.fill)
        widths = np.array([bucket.width for bucket in buckets], dtype=np.int64)
        means = [
            np.bincount(which, weights=of_each, minlength=len(buckets)) / np.maximum(counts, 1)
            for of_each in (expected.each, expected.least)
        ]
        return Loads(
            capacity=np.where(widths <= prices.room, UNLIMITED, 0),
            fixed=np.zeros(len(buckets)),
            each=means[0],
            floor=0.0,
            stages=replica.config.pp,
            longest=expected.full,
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
        prices = self.prices(replica, cost, shards)
        return _rows(sequences, choose_bins(sequences, prices, self.splits), group)

    def prices(self, replica: Replica, cost: CostModel, shards: int = 1) -> PackPrices:
        """What packs cost on the replica, or on a group of `shards` like it."""
        return pack_prices(cost, replica.config, shards, replica.budget * shards, self.round_to, align=self.align)


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
