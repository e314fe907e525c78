"""Padding: rows of one sequence each, padded to the width of its bucket.

The idea (LobRA, arXiv 2509.01193, Eq. 12 and released code): a micro-batch holds sequences of one bucket, as many as
its token budget allows, every one padded to the bucket's width. Its cost is the padding, and a fragment for each bucket
that a replica touches. Where a bucket's sequences fill m micro-batches, they are cut evenly (sizes differ by one at
most): time is convex in the rows, so the sum is no larger than that of full micro-batches and a rest, and the longest
is shorter, which counts where there is a pipeline. The authors instead cut full groups of one tenant and one mixed
rest; remainders of different buckets are never merged, here as there. Limits: a stage cut that is not even
(`Replica.layers`) is not seen in the prices.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from lobra.batch import Batch, Bucket
from lobra.plan import DeploymentPlan, MicroBatch, Replica
from lobra.protocols import CostModel
from lobra.rates import Loads
from lobra.spec import SequenceRef
from policies.batching.boundaries import Boundaries, DynamicBuckets
from policies.batching.buckets import cut, distinct_budgets, histogram, refuse_too_long


@dataclass(frozen=True, slots=True)
class Padded:
    """Sequences padded to bucket widths; `boundaries` says where the buckets end."""

    boundaries: Boundaries = field(default_factory=DynamicBuckets)

    def bucket(self, batch: Batch, plan: DeploymentPlan, cost: CostModel) -> tuple[Bucket, ...]:
        """The batch in buckets whose width is what a row is padded to; ascending, none empty."""
        del cost
        if not len(batch):
            return ()
        lengths, counts = histogram(batch.length)
        return cut(batch, self.boundaries.boundaries(lengths, counts, distinct_budgets(plan)))

    def loads(self, buckets: tuple[Bucket, ...], replica: Replica, cost: CostModel, shards: int = 1) -> Loads:
        """The exact price of every count: floor, fixed part and price per row, as the cost model states them."""
        widths = np.array([bucket.width for bucket in buckets], dtype=np.int64)
        rates = cost.rates(replica.config, widths, shards)
        capacity = replica.budget * shards // widths
        return Loads(capacity, rates.fixed, rates.row, rates.floor, replica.config.pp)

    def form(
        self, share: tuple[Bucket, ...], replica: Replica, cost: CostModel, group: tuple[int, ...] = ()
    ) -> tuple[MicroBatch, ...]:
        """Per bucket the fewest micro-batches, of even size, rows by tenant then index; costliest first.

        Ties: the wider first, then in order. Infeasible if a row of a bucket does not fit.
        """
        share = tuple(bucket for bucket in share if bucket.count)
        if not share:
            return ()
        shards = max(1, len(group))
        refuse_too_long(share, replica, replica.budget * shards, [bucket.width for bucket in share])
        rates = cost.rates(replica.config, np.array([bucket.width for bucket in share]), shards)
        formed: list[tuple[float, int, MicroBatch]] = []
        for fixed, each, bucket in zip(rates.fixed.tolist(), rates.row.tolist(), share, strict=True):
            for part in _even_parts(_by_tenant(bucket.sequences).refs(), replica.budget * shards // bucket.width):
                seconds = fixed + each * len(part)
                if rates.pack is not None and rates.pack.run:  # every tenant but the first is one more adapter run
                    seconds += rates.pack.run * (len({sequence.tenant for sequence in part}) - 1)
                rows = tuple((sequence,) for sequence in part)
                formed.append((-max(rates.floor, seconds), -bucket.width, MicroBatch(rows, bucket.width, group)))
        formed.sort(key=lambda entry: entry[:2])
        return tuple(microbatch for _, _, microbatch in formed)


def _even_parts(sequences: list[SequenceRef], capacity: int) -> Iterator[list[SequenceRef]]:
    """The fewest parts of at most `capacity`, in order; sizes differ by one at most, the larger parts first."""
    number = -(-len(sequences) // capacity)
    size, rest = divmod(len(sequences), number)
    start = 0
    for part in range(number):
        end = start + size + (part < rest)
        yield sequences[start:end]
        start = end


def _by_tenant(sequences: Batch) -> Batch:
    """The sequences by tenant, then index: a tenant's rows lie together."""
    return sequences.take(np.lexsort((sequences.index, sequences.tenant)))
