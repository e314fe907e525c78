"""Packed rows over unequal replicas: quotas, longest first, best fit, exact repair.

The idea: the fluid program says how many sequences of each length class every kind of replica should compute; one
packed sample replica of each kind says what whole packs make of that, and kinds are levelled by it (`packed_level`);
inside a kind, sequences are dealt costliest first to the replica with the least to do (Graham's LPT, 1969), which
leaves replicas of a kind alike to a fraction of a per cent; each replica packs (`batching.packing`); and the slowest
hands sequences over against others as long as the true packs of both sides say that it helps (`packed_repair`). Where
pipelines wait much longer than thought, the samples correct the quotas too. Sources: LobRA's balanced dispatch (arXiv
2509.01193, Eq. 3), packed; the pipeline, levelling and correction are our own.

Cost: a linear program or two, one sort, one packing a replica, two packings an exchange tried. Limits: only for packed
batching; which sequences of a class go to which kind is not optimised, nor which tenants meet on a replica, so adapter
runs are paid as they come; no optimum is proven, the fluid at the least price of each sequence (`Loads.least`) bounds
it. Made for many sequences a replica: with a few, where floors decide, `Balanced` with its repair takes longer to find
and can find better.
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
from policies.batching.pack_prices import PackPrices
from policies.batching.packed import UNLIMITED, Packed
from policies.bounds.fluid import fluid
from policies.dispatch.fleet import bucket_counts, fleet_of
from policies.dispatch.packed_dealing import dealt, kinds_by_quota
from policies.dispatch.packed_level import level, sample_of
from policies.dispatch.packed_repair import repair_packed
from policies.dispatch.packed_shares import PackedShares
from policies.dispatch.rounding import round_flow
from policies.machines import Machine, kinds_of

SETTLED = 0.025  # of the makespan: smaller corrections are left to levelling
EMPTY = 0.25  # of what packs of one length leave empty, what others will not fill; 0 and 1 are up to 0.5 % slower


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
            samples = tuple(
                sample_of(shares, kind, np.flatnonzero(kinds == kind), size) for kind, size in enumerate(sizes.tolist())
            )
            found = np.array(
                [
                    before if sample is None else sample.seconds - sample.expected
                    for before, sample in zip(extra.tolist(), samples, strict=True)
                ]
            )
            if np.abs(found - extra).max() < SETTLED * makespan or not left:
                break
            extra = found
        level(shares, kinds, samples)
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
    each = _expected(everything.length, [example.replica.config.gpus for example in examples], prices)
    return PackedShares(everything, prices, batching.splits, each, kind, [], np.zeros(len(kind)))


def _expected(lengths: Array, gpus: Sequence[int], prices: tuple[PackPrices, ...]) -> Array:
    """Seconds of sequences on every kind, float64 [K, n], lengths descending, as the fluid program takes them.

    The kind that is cheapest for the shortest gets what fills its packs up; on the others, sequences pay for a part of
    what packs of their like would leave empty.
    """
    filled = [among_any(lengths, price) for price in prices]
    short = int(np.argmin([of * seconds[-1] for of, seconds in zip(gpus, filled, strict=True)]))
    return np.stack(
        [
            seconds if kind == short else seconds + EMPTY * (among_alike(lengths, price) - seconds)
            for kind, (seconds, price) in enumerate(zip(filled, prices, strict=True))
        ]
    )


def _loads(buckets: tuple[Bucket, ...], shares: PackedShares) -> tuple[Loads, ...]:
    """The mean expected price of each class on each kind, as the fluid program takes it."""
    widths, counts = np.array([bucket.width for bucket in buckets]), bucket_counts(buckets)
    which = np.repeat(np.arange(len(buckets))[::-1], counts[::-1])  # sequences stand longest first
    nothing = np.zeros(len(buckets))
    return tuple(
        Loads(
            capacity=np.where(widths <= prices.room, UNLIMITED, 0),
            fixed=nothing,
            each=np.bincount(which, weights=each) / counts,
            floor=0.0,
            stages=prices.stages,
        )
        for prices, each in zip(shares.prices, shares.each, strict=True)
    )


def _share(sequences: Batch) -> tuple[Bucket, ...]:
    """One bucket of everything that a replica packs; by tenant, then index."""
    if not len(sequences):
        return ()
    order = np.lexsort((sequences.index, sequences.tenant))
    return (Bucket(int(sequences.length.max()), sequences.take(order)),)
