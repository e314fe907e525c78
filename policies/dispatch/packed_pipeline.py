"""Packed rows over unequal replicas: quotas, longest first, best fit, exact repair.

The idea: the fluid program says how many sequences of each length class every kind of replica should compute; inside a
kind, sequences are dealt costliest first to the replica with the least to do (Graham's LPT, 1969), which leaves
replicas of a kind alike to a fraction of a per cent; each replica packs by best fit decreasing; and sequences move or
swap off the slowest replica as long as the true packs of both sides say that it helps (see `packed_repair`). What packs
really take on sample replicas of each kind, their waiting in pipelines included, corrects the quotas where it must.
Sources: LobRA's balanced dispatch (arXiv 2509.01193, Eq. 3), packed; the pipeline and the correction are our own.

Cost: a linear program or two, one sort, one packing a replica, two packings an exchange tried. Limits: only for packed
batching; which sequences of a class go to which kind is not optimised; no optimum is proven, the fluid at the least
price of each sequence (`Loads.least`) bounds it. Made for many sequences a replica: with a few, where floors decide,
`Balanced` with its repair takes longer to find and can find better.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch, Bucket, concatenate
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.protocols import Batching, CostModel
from lobra.rates import Assignment, Loads
from policies.batching.pack_estimate import among_alike, among_any
from policies.batching.packed import UNLIMITED, Packed
from policies.bounds.fluid import fluid
from policies.dispatch.fleet import Machine, bucket_counts, fleet_of, kinds_of
from policies.dispatch.packed_dealing import dealt, kinds_by_quota, level
from policies.dispatch.packed_repair import PackedShares, repair_packed
from policies.dispatch.rounding import round_flow

SETTLED = 0.025  # of the makespan: smaller corrections are left to the repair


@dataclass(frozen=True, slots=True)
class PackedPipeline:
    """The slowest replica as fast as can be, where rows are packed."""

    tries: int = 24  # exchanges tried on the slowest replica at most, times sqrt(R / 32) for more replicas
    corrections: int = 2

    def __post_init__(self) -> None:
        if min(self.tries, self.corrections) < 0:
            raise BadInput(
                f"packed dispatch: tries {self.tries} and corrections {self.corrections} must not be negative"
            )

    def assign(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        """Every sequence to exactly one replica that can hold it, as one bucket a replica; Infeasible if none can."""
        if not buckets:
            return Assignment(((),) * len(plan.replicas))
        shares = self.divide(buckets, plan, batching, cost)
        return Assignment(tuple(_share(shares.sequences.take(held)) for held in shares.held))

    def divide(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> PackedShares:
        """Who holds which sequences, with the true seconds of every replica's packs."""
        if not isinstance(batching, Packed):
            raise BadInput(
                f"packed dispatch: it deals packed rows, but the batching is {type(batching).__name__}; "
                "choose policy/batching=packed, or policy/dispatch=balanced"
            )
        machines = tuple(map(Machine, plan.replicas))
        if max(bucket.width for bucket in buckets) > max(replica.budget for replica in plan.replicas):
            fleet_of(buckets, machines, batching, cost)  # which says what does not fit, and the way out
        shares = _nobody(buckets, machines, batching, cost)
        shares.held = self._dealt(shares, _loads(buckets, shares), bucket_counts(buckets))
        shares.seconds = np.array(list(map(shares.price_on, shares.kind.tolist(), shares.held)))
        repair_packed(shares, int(self.tries * max(1.0, len(machines) / 32) ** 0.5))
        return shares

    def _dealt(self, shares: PackedShares, loads: Sequence[Loads], counts: Array) -> list[Array]:
        """Positions of every replica's sequences, quotas corrected by what sample replicas take."""
        sizes, fits = np.bincount(shares.kind), np.stack([kind.capacity > 0 for kind in loads])
        extra = np.array([(kind.stages - 1) * (kind.fixed + kind.token * kind.room) / 2 for kind in shares.prices])
        for left in range(self.corrections, -1, -1):
            makespan, flow = fluid(loads, sizes.tolist(), counts, extra if extra.any() else None)
            kinds = kinds_by_quota(round_flow(flow, counts, fits))
            found = _extra(shares, kinds, sizes, extra)
            if np.abs(found - extra).max() < SETTLED * makespan or not left:
                break
            extra = found
        expected = np.array([each[:-1][kinds == kind].sum() for kind, each in enumerate(shares.each)]) / sizes
        smallest = min(prices.room for prices in shares.prices)
        level(kinds, expected + found, sizes, shares.each[:, :-1], shares.sequences.length <= smallest)
        return dealt(shares.sequences.length, kinds, shares.kind, shares.prices)


def _nobody(
    buckets: tuple[Bucket, ...], machines: Sequence[Machine], batching: Packed, cost: CostModel
) -> PackedShares:
    """Shares that hold nothing yet: all sequences longest first, and their prices."""
    everything = concatenate(buckets[0].sequences.step, [bucket.sequences for bucket in buckets])
    falling = int(everything.length.max()) - everything.length
    small = falling.astype(np.min_scalar_type(int(falling.max())))  # small integers are sorted by radix
    everything = everything.take(np.argsort(small, kind="stable"))
    examples, kind = kinds_of(machines)
    prices = tuple(batching.prices(example.replica, cost) for example in examples)
    cheapest = [
        of.config.gpus * float(among_any(everything.length[-1:], price)[0])
        for of, price in zip((example.replica for example in examples), prices, strict=True)
    ]
    short = int(np.argmin(cheapest))  # the kind that the shortest sequences will go to
    each = np.stack(
        [
            np.append((among_any if number == short else among_alike)(everything.length, price), 0.0)
            for number, price in enumerate(prices)
        ]
    )
    return PackedShares(everything, prices, batching.splits, each, kind, [], np.zeros(len(kind)))


def _loads(buckets: tuple[Bucket, ...], shares: PackedShares) -> tuple[Loads, ...]:
    """The mean expected price of each class on each kind, as the fluid program takes it."""
    widths, counts = np.array([bucket.width for bucket in buckets]), bucket_counts(buckets)
    which = np.repeat(np.arange(len(buckets))[::-1], counts[::-1])  # sequences stand longest first
    nothing = np.zeros(len(buckets))
    return tuple(
        Loads(
            capacity=np.where(widths <= prices.room, UNLIMITED, 0),
            fixed=nothing,
            each=np.bincount(which, weights=each[:-1]) / counts,
            floor=0.0,
            stages=prices.stages,
        )
        for prices, each in zip(shares.prices, shares.each, strict=True)
    )


def _extra(shares: PackedShares, kinds: Array, sizes: Array, guess: Array) -> Array:
    """What replicas of each kind take beyond the expected price of their sequences, float64 [K], before any is dealt.

    Every p-th sequence of a kind with p replicas is about what one of them will get; two such samples are packed. Kinds
    without sequences keep the guess.
    """
    extra = guess.copy()
    for kind, size in enumerate(sizes.tolist()):
        taken = np.flatnonzero(kinds == kind)
        if not len(taken):
            continue
        samples = [taken[first::size] for first in {0, min(size, len(taken)) - 1}]
        more = [shares.price_on(kind, sample) - shares.each[kind][sample].sum() for sample in samples]
        extra[kind] = np.mean(more)
    return extra


def _share(sequences: Batch) -> tuple[Bucket, ...]:
    """One bucket of everything that a replica packs; by tenant, then index."""
    if not len(sequences):
        return ()
    order = np.lexsort((sequences.index, sequences.tenant))
    return (Bucket(int(sequences.length.max()), sequences.take(order)),)
