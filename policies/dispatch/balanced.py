"""The makespan balanced over unequal replicas, with true integer counts on every single one.

Idea: the paper's dispatch problem (Eq. 3) without its integer program. The fluid optimum (a linear program of a
millisecond) says what every kind of replica should do; it is rounded and spread over single replicas, and an iterated
local search of exchanges takes out what rounding cost. Dealing by length and dealing evenly are further starts, so it
is never slower than those. Measured on the released planner's 21 instances: 0.38-1.001 of its objective at a median of
45 ms, where that planner took 0.01-45 s. Exact integer programs for groups of replicas were tried: they end where the
rounding does, since the loss is in dealing a group's counts to its members.

Fleets of 64 machines or more begin otherwise: the second fluid charges each kind for what the first cost it once
rounded, chunks are cut to the level of a kind, the slowest machines exchange in pairs before single ones do, and they
do a third of the work. On 1,024 GPUs and 15,552 sequences that takes 71 CPU ms and ends 0.4 % above the best bound;
without kicks 44 ms and 0.7 % (benchmarks/bench_dispatch.py, medians).

Limits. Counts are judged by what batching says of them (`Loads`): exact for padding, an estimate for packing, where
`repair` then moves single sequences between formed micro-batches while the true maximum falls (measured on 832
sequences and 16 GPUs: 1.5-6 %; 20 tries suffice for 8 replicas). No optimum is proven here; `policies.bounds` says how
far away it can be. Starved steps end 0.05 % above the configuration bound in the median; single ones, small fleets of 7
to 40 machines with two or three sequences each, 1-3 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Bucket
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.protocols import Batching, CostModel
from lobra.rates import Assignment
from policies.bounds.fluid import Flow, least_each, priced_fluid
from policies.bounds.latency import latency_bound
from policies.dispatch.cheapest import deal_by_length
from policies.dispatch.fleet import Fleet, bucket_counts, fleet_of
from policies.dispatch.local_search import CLOSE, LARGE, improve
from policies.dispatch.repair import repaired
from policies.dispatch.rounding import round_flow, spread
from policies.dispatch.shares import shares_of
from policies.dispatch.state import State, state_of
from policies.dispatch.tables import Split, Tables, tables_of
from policies.dispatch.uniform import deal
from policies.machines import Machine

UNEVEN = 0.01  # of the makespan: overheads of kinds that differ by more call for a second fluid


@dataclass(frozen=True, slots=True)
class Balanced:
    """The slowest replica as fast as can be."""

    work: int = 160  # exchanges looked for after the first descent, fewer in large fleets; 0: descend only
    repair: int = 0  # exchanges of single sequences tried on formed micro-batches; pays where rows are packed
    seed: int = 0
    split: Split = "even"  # how a bucket's micro-batches are counted; "full" as the paper's planner does

    def __post_init__(self) -> None:
        if min(self.work, self.repair, self.seed) < 0:
            raise BadInput(
                f"balanced: work {self.work}, repair {self.repair} and seed {self.seed} must not be negative"
            )
        if self.split not in ("even", "full"):
            raise BadInput(f"balanced: split is {self.split!r}; choose even or full")

    def assign(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        """Every sequence to exactly one replica that can hold it; Infeasible where a bucket fits none."""
        return Assignment(self.divide(buckets, tuple(map(Machine, plan.replicas)), batching, cost))

    def divide(
        self, buckets: tuple[Bucket, ...], machines: Sequence[Machine], batching: Batching, cost: CostModel
    ) -> tuple[tuple[Bucket, ...], ...]:
        """The part of each bucket that every machine computes."""
        if not buckets:
            return ((),) * len(machines)
        fleet = fleet_of(buckets, machines, batching, cost)
        counts = bucket_counts(buckets)
        simple = (deal_by_length(counts, fleet, machines), deal(counts, fleet.fits[fleet.kind]))
        shares = shares_of(buckets, self.balance(fleet, counts, simple))
        if not self.repair:
            return shares
        return repaired(buckets, shares, machines, fleet, batching=batching, cost=cost, tries=self.repair)

    def balance(self, fleet: Fleet, counts: Array, others: Sequence[Array] = ()) -> Array:
        """Counts of every machine, int64 [R, J], for counts [J] of a step; never slower than any of the others."""
        tables = tables_of(fleet, counts, self.split)
        state, bound = _start(fleet, tables, counts)
        state = min([state, *(state_of(tables, fleet.kind, other) for other in others)], key=lambda s: s.makespan)
        improve(state, counts, bound, self.work, self.seed)
        return state.counts


def _start(fleet: Fleet, tables: Tables, counts: Array) -> tuple[State, float]:
    """The best of the rounded fluids, and a bound."""
    sizes, large = fleet.sizes.tolist(), len(fleet.kind) >= LARGE
    each = np.stack([least_each(loads) for loads in fleet.loads])
    bound, best = latency_bound(fleet.loads, sizes, counts), None
    guesses = [None] if large else _bubble_guesses(fleet, counts)
    for turn, bubbles in enumerate(guesses):
        found = priced_fluid(each, sizes, counts, bubbles)
        bound = max(bound, found.seconds) if bubbles is None else bound
        whole = round_flow(found.flow, counts, fleet.fits)
        for thin in (False,) if large else (False, True):
            state = state_of(tables, fleet.kind, spread(fleet, whole, thin=thin, cut=large))
            if best is None or state.makespan < best.makespan:
                best = state
        if best is not None and best.makespan <= bound * (1 + CLOSE):
            break
        if large and not turn:
            guesses += _overheads(fleet, state, each, found)
    assert best is not None
    return best, bound


def _overheads(fleet: Fleet, state: State, each: Array, found: Flow) -> list[Array | None]:
    """Seconds by which machines of a kind are busy longer than the fluid says, float64 [K], if kinds differ by much."""
    fluid_seconds = np.sum(found.flow * np.where(np.isfinite(each), each, 0.0), axis=1)
    seconds = np.bincount(fleet.kind, weights=state.seconds, minlength=len(fleet.loads))
    overheads: Array = np.maximum(seconds / fleet.sizes - fluid_seconds / fleet.sizes, 0.0)
    return [overheads] if np.ptp(overheads) > UNEVEN * found.seconds else []


def _bubble_guesses(fleet: Fleet, counts: Array) -> list[Array | None]:
    """No bubbles, and where there are pipelines, those of full micro-batches and half of that; float64 [K] each."""
    full = np.zeros(len(fleet.loads))
    for kind, loads in enumerate(fleet.loads):
        sizes = np.minimum(loads.capacity, counts)
        seconds = np.where(sizes > 0, np.maximum(loads.floor, loads.fixed + loads.each * sizes), 0.0)
        full[kind] = (loads.stages - 1) * (float(seconds.max()) if loads.longest is None else loads.longest)
    return [None, full, full / 2] if full.any() else [None]
