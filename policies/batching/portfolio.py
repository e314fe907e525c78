"""Padding to the best of several bucketings for the plan at hand.

The idea: fewest padded tokens (the paper's rule, see `boundaries`) is not what a heterogeneous plan wants. A boundary
just above a replica's budget takes that replica away from the sequences below it, and a padded token costs more where
only an expensive replica can compute it. So four exact choices are made for every batch: fewest padded tokens; the same
with a boundary forced at every budget of the plan; least price, by the dual prices of the plan's fluid program for the
first choice; and least price where those prices are blended half and half with the cheapest GPU seconds, because a kind
that idles has seconds worth nothing and would invite padding without limit. The fluid makespan of the plan decides,
ties go to the earlier. Cost: four dynamic programmes and four small linear programs, some milliseconds.

Limits. The judge knows neither fragments nor bubbles: it always likes more buckets, which `number` must keep in check.
Sequences that only a group of replicas can hold are priced in proportion to their width and left out of the judgement.
What it saves beside the first choice is about a per cent of the fluid makespan (`benchmarks/bench_batching.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch, Bucket
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, Replica
from lobra.protocols import CostModel
from lobra.rates import Loads
from policies.batching.buckets import candidates, cut, distinct_budgets, histogram
from policies.batching.market import Market, market_of
from policies.batching.padded import Padded
from policies.batching.partition import choose_boundaries


@dataclass(frozen=True, slots=True)
class Portfolio:
    """At most `number` buckets that end at multiples of `step` or at budgets, chosen for the batch and the plan."""

    number: int = 32
    step: int = 16

    def __post_init__(self) -> None:
        if self.number < 1 or self.step < 1:
            raise BadInput(f"portfolio of buckets: number {self.number} and step {self.step} must be at least 1")

    def bucket(self, batch: Batch, plan: DeploymentPlan, cost: CostModel) -> tuple[Bucket, ...]:
        """The batch in buckets whose width is what a row is padded to; ascending, none empty."""
        if not len(batch):
            return ()
        lengths, counts = histogram(batch.length)
        return cut(batch, self.boundaries(lengths, counts, plan, cost))

    def boundaries(self, lengths: Array, counts: Array, plan: DeploymentPlan, cost: CostModel) -> Array:
        """Ascending widths for `counts` [U] sequences of distinct, ascending `lengths` [U]."""
        budgets = distinct_budgets(plan)
        ends, weights = candidates(lengths, counts, self.step, budgets)
        fits = int(np.searchsorted(ends, budgets[-1], side="right"))
        first = choose_boundaries(ends, weights, self.number)
        if not fits or len(ends) <= self.number:
            return first
        held = _Held(ends[:fits], np.cumsum(weights, dtype=np.float64)[:fits], market_of(ends[:fits], plan, cost))
        best, worths = held.seconds(first)
        for other in self._others(ends, weights, held, worths, budgets):
            seconds, _ = held.seconds(other)
            if seconds < best * (1 - 1e-9):
                best, first = seconds, other
        return first

    def _others(self, ends: Array, weights: Array, held: "_Held", worths: Array, budgets: Array) -> Iterator[Array]:
        forced = np.unique(np.searchsorted(ends, budgets[budgets < ends[-1]], side="right"))
        forced = ends[forced[forced > 0] - 1]
        if 0 < len(forced) < self.number:
            yield choose_boundaries(ends, weights, self.number, forced=forced)
        dual, even = held.market.prices(worths), held.market.prices(held.market.even)
        for prices in (dual, (dual + even) / 2):
            beyond = prices[-1] * (ends[len(prices) :] / ends[len(prices) - 1])
            yield choose_boundaries(ends, weights, self.number, prices=np.append(prices, beyond))

    def loads(self, buckets: tuple[Bucket, ...], replica: Replica, cost: CostModel, shards: int = 1) -> Loads:
        """As for any padding: the exact price of every count."""
        return Padded().loads(buckets, replica, cost, shards)

    def form(
        self, share: tuple[Bucket, ...], replica: Replica, cost: CostModel, group: tuple[int, ...] = ()
    ) -> tuple[MicroBatch, ...]:
        """As for any padding: the fewest micro-batches of even size, costliest first."""
        return Padded().form(share, replica, cost, group)


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """The upper ends that single replicas hold, how many sequences are at or below each, and what they cost."""

    ends: Array  # [F]
    below: Array  # [F]
    market: Market

    def seconds(self, boundaries: Array) -> tuple[float, Array]:
        """Fluid seconds of the sequences that single replicas hold in these buckets, and worths of seconds."""
        places = np.searchsorted(self.ends, boundaries[boundaries <= self.ends[-1]])
        if not len(places) or places[-1] != len(self.ends) - 1:  # the last held ones share a bucket with others
            return np.inf, self.market.even
        return self.market.fluid(places, np.diff(self.below[places], prepend=0.0))
