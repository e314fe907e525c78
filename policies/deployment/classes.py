"""Classes: what a step is expected to bring, in the runtime's own buckets, and what each of it costs on each kind.

Each planning batch is bucketed by the very rule that will bucket the real ones, and its buckets stand side by side with
those of the other batches. Bucketing the pooled sequences once instead gives the planner
buckets that no step has, which cost up to 12 % of the step time in prototypes.

Shapes: K kinds, J classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Batch, Bucket, concatenate, frozen
from lobra.plan import DeploymentPlan, Replica
from lobra.protocols import Batching, CostModel
from lobra.rates import Loads
from policies.bounds.fluid import least_each
from policies.deployment.placement import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Buckets with how many sequences of each every planning batch brings."""

    buckets: tuple[Bucket, ...]
    by_batch: Array  # float64 [S, J]

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_batch", frozen(self.by_batch, np.float64))

    @property
    def widths(self) -> tuple[int, ...]:
        """Upper ends, ascending."""
        return tuple(bucket.width for bucket in self.buckets)

    @property
    def counts(self) -> Array:
        """What a step brings on average; float64 [J], above 0."""
        counts: Array = self.by_batch.mean(axis=0)
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What classes cost on kinds, in stage seconds; infinity where a sequence does not fit."""

    kinds: tuple[Kind, ...]
    loads: tuple[Loads, ...]
    each: Array  # float64 [K, J]: the least that a micro-batch charges for one sequence
    full: Array  # float64 [K, J]: a full micro-batch
    alone: Array  # float64 [K, J]: one sequence alone through all stages
    least: Array  # float64 [K, J]: what one sequence adds for certain; `each`, unless that is an estimate
    size: Array | None = None  # int64 [K, J]: the least group of replicas that holds the class, 0: none; None: 1

    @property
    def units(self) -> Array:
        """Replicas of each kind that come together, because they share their weights; int64 [K]."""
        return np.array([kind.config.fsdp for kind in self.kinds], dtype=np.int64)

    @property
    def gpus(self) -> Array:
        """GPUs of one replica of each kind; int64 [K]."""
        return np.array([kind.config.gpus for kind in self.kinds], dtype=np.int64)

    @property
    def stages(self) -> Array:
        """Pipeline stages of each kind; int64 [K]."""
        return np.array([kind.config.pp for kind in self.kinds], dtype=np.int64)

    @property
    def certain(self) -> float:
        """What is certain of the prices, as a share: bounds that rest on `each` hold times this."""
        fits = np.isfinite(self.each) & (self.each > 0)
        return float(np.min(self.least[fits] / self.each[fits], initial=1.0))

    @property
    def bubbles(self) -> Array:
        """Seconds in which a replica's stages wait for each other, if its longest micro-batch is a full one; [K]."""
        longest = np.max(np.where(np.isfinite(self.full), self.full, 0.0), axis=1, initial=0.0)
        bubbles: Array = (self.stages - 1) * longest
        return bubbles

    def rows(self, chosen: Sequence[int]) -> "Table":
        """The table of these kinds alone."""
        picked = list(chosen)
        return Table(
            tuple(self.kinds[k] for k in picked),
            tuple(self.loads[k] for k in picked),
            self.each[picked],
            self.full[picked],
            self.alone[picked],
            self.least[picked],
            None if self.size is None else self.size[picked],
        )


def classes_of(batches: Sequence[Batch], batching: Batching, plan: DeploymentPlan, cost: CostModel) -> Classes:
    """The buckets of these batches side by side; buckets of one width are one class."""
    parts = [{b.width: b.sequences for b in batching.bucket(batch, plan, cost)} for batch in batches]
    widths = sorted(set().union(*parts))
    by_batch = [[len(part[width]) if width in part else 0 for width in widths] for part in parts]
    buckets = (concatenate(0, [part[width] for part in parts if width in part]) for width in widths)
    return Classes(tuple(map(Bucket, widths, buckets)), np.array(by_batch))


def table(classes: Classes, kinds: Sequence[Kind], batching: Batching, cost: CostModel, shards: int = 1) -> Table:
    """Prices of all classes on all kinds, or on groups of `shards` replicas of a kind."""
    loads = tuple(batching.loads(classes.buckets, _example(kind), cost, shards) for kind in kinds)
    full, alone = [], []
    for load in loads:
        fits = load.capacity > 0
        capacity = np.maximum(load.capacity, 1)
        full.append(np.where(fits, np.maximum(load.floor, load.fixed + load.each * capacity), np.inf))
        if load.longest is not None:
            full[-1] = np.where(fits, load.longest, np.inf)
        single = np.maximum(load.floor, load.fixed + load.each)
        alone.append(np.where(fits, load.stages * single, np.inf))
    each = [least_each(load) for load in loads]
    least = [
        price if load.least is None else np.where(load.capacity > 0, load.least, np.inf)
        for load, price in zip(loads, each, strict=True)
    ]
    return Table(tuple(kinds), loads, np.stack(each), np.stack(full), np.stack(alone), np.stack(least))


def awkward_seconds(alone: Array, by_batch: Array) -> float:
    """Mean over batches of what their most awkward sequence takes by itself: no step is shorter on any cluster.

    alone: seconds of one sequence of each class on what suits it best, [J]; by_batch: how many there are, [S, J].
    """
    return float(np.mean(np.max(np.where(by_batch > 0, alone, 0.0), axis=1, initial=0.0)))


def undominated(prices: Table, longest: int, holders: Array | None = None) -> tuple[int, ...]:
    """Kinds that no other kind replaces at no loss, whatever the counts: positions in the table, ascending.

    On the n_i GPUs of one unit of i (a replica, or those that share their weights) stand n_i / n_k units of k if n_k
    divides n_i and tp_k divides tp_i. They replace it if k serves every class that i serves for no more GPU seconds,
    with no larger bubble and no longer way through the stages, and holds the longest sequence if i does. Where replicas
    share, k's groups must not take more GPUs than i's, for any class or the longest sequence; holders: replicas of each
    kind that hold that one together, float64 [K], by default one where the budget is large enough.
    """
    if holders is None:
        holders = np.array([1.0 if kind.budget >= longest else np.inf for kind in prices.kinds])
    holding = prices.gpus * holders
    group = prices.gpus[:, None] * (1 if prices.size is None else prices.size)
    gpus, bubbles = prices.gpus * prices.units, prices.bubbles
    work = prices.gpus[:, None] * prices.each
    kept: list[int] = []
    for i, kind in enumerate(prices.kinds):
        for k, other in enumerate(prices.kinds):
            if k == i or gpus[i] % gpus[k] or kind.config.tp % other.config.tp:
                continue
            no_worse = (
                bool(np.all(work[k] <= work[i]) and np.all(prices.alone[k] <= prices.alone[i]))
                and bubbles[k] <= bubbles[i]
                and holding[k] <= holding[i]
                and (prices.size is None or bool(np.all((group[k] <= group[i]) | (prices.size[i] == 0))))
            )
            if no_worse and (k < i or not _no_worse_back(prices, work, i, k)):
                break
        else:
            kept.append(i)
    return tuple(kept)


def _no_worse_back(prices: Table, work: Array, i: int, k: int) -> bool:
    """Whether kind i is as good as kind k in everything, so that one of the two must stay."""
    gpus = prices.gpus * prices.units
    same_place = gpus[i] == gpus[k] and prices.kinds[i].config.tp == prices.kinds[k].config.tp
    equal = np.array_equal(work[i], work[k]) and np.array_equal(prices.alone[i], prices.alone[k])
    return bool(same_place and equal and prices.bubbles[i] == prices.bubbles[k])


def _example(kind: Kind) -> Replica:
    return Replica(kind.config, tuple(range(kind.config.gpus)), kind.budget)
