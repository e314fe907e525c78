"""The most that each ingredient can give: a played baseline, and what nothing with the ingredient undercuts.

The baseline is the best homogeneous plan, rows padded to 16 widths chosen for each batch, dispatch balanced; it is
played. With an ingredient, the least that all work takes on the planner's batches is a bound: no bubbles, perfect
balance, no partly filled micro-batch, no synchronisation. So what is told is an upper bound of the saving, not a
forecast; a plan usually reaches most of it, and `lobra plan` tells how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.compare import STATUSES
from experiments.planning_case import standing
from experiments.walk import World
from lobra.batch import Array, Batch
from lobra.errors import BadInput, Infeasible
from lobra.protocols import Batching
from lobra.rates import Provenance
from policies.batching.boundaries import DynamicBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.deployment.classes import Classes, classes_of, undominated
from policies.deployment.expected import planning_batches
from policies.deployment.homogeneous import Homogeneous
from policies.deployment.judge import within_reach
from policies.deployment.kinds import Space
from policies.deployment.placement import Kind, most
from policies.deployment.problem import Problem, problem_of, whole_units
from policies.deployment.sampled import deploy_sampled
from policies.deployment.sharing import group_table
from policies.deployment.tau import Fluid, Search, ideal_seconds
from policies.dispatch.balanced import Balanced

BATCHES = 2  # planning batches
PADDED, PACKED = Padded(DynamicBuckets(16, 16)), Packed()
JOINT = "joint training"
LARGEST_GROUP = 8  # replicas that share a micro-batch: a node


@dataclass(frozen=True, slots=True)
class Gain:
    """One line: what is allowed, seconds of a step at the least, and what the prices rest on."""

    name: str
    seconds: float | None  # None: it does not apply, and `reason` says why
    of: float  # seconds that it is compared with
    basis: str
    reason: str = ""

    @property
    def saves(self) -> float | None:
        """The most that can be saved, as a share; None where it does not apply."""
        return None if self.seconds is None else max(0.0, 1 - self.seconds / self.of)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The best homogeneous padded plan, played."""

    seconds: float
    plan: str
    basis: str


def baseline(world: World, seed: int) -> Baseline:
    """Infeasible where nothing holds the longest sequence."""
    policy = Homogeneous(PADDED, Balanced(seed=seed), batches=BATCHES, seed=seed)
    made = policy.plan(world.workload, world.model, world.cluster, world.cost)
    assert made.certificate is not None
    return Baseline(made.certificate.expected_seconds, made.summary(), standing(made, world.cost)[0])


def gains(world: World, seed: int, known: Baseline) -> list[Gain]:
    """Every ingredient alone, all together, and joint training."""
    batches = within_reach(planning_batches(world.workload, BATCHES, seed))
    wanted: tuple[tuple[str, Batching, bool, int], ...] = (
        ("heterogeneity", PADDED, True, 1),
        ("packing", PACKED, False, 1),
        ("context parallelism", PADDED, False, LARGEST_GROUP),
        ("all three", PACKED, True, LARGEST_GROUP),
    )
    rows = []
    for name, batching, mixed, groups in wanted:
        try:
            seconds, basis = least_seconds(world, batches, batching, mixed=mixed, groups=groups)
            rows.append(Gain(name, seconds, known.seconds, basis))
        except (BadInput, Infeasible) as error:
            rows.append(Gain(name, None, known.seconds, "-", str(error)))
    return [*rows, _joint(world, seed, batches)]


def least_seconds(
    world: World, batches: Sequence[Batch], batching: Batching, *, mixed: bool, groups: int
) -> tuple[float, str]:
    """Seconds of a step that no plan undercuts on these batches in their buckets, and the weakest evidence used.

    mixed: any mix of kinds, else one kind; groups: replicas that may share a micro-batch, at most.
    """
    problem = problem_of(
        Space(), world.workload, "limit", model=world.model, cluster=world.cluster, cost=world.cost, groups=groups
    )
    options = problem.homogeneous(groups)
    kinds = problem.kinds if mixed else tuple(kind for kind, _ in options)
    classes = classes_of(batches, batching, problem.menu(kinds), world.cost)
    prices = group_table(classes, kinds, batching, world.cost, cluster=world.cluster, groups=groups, loose=False)
    prices = replace(prices, each=prices.least)
    basis = _weakest(world, kinds, groups)
    if not mixed:
        held = np.where(np.isfinite(prices.least), prices.least, np.inf)
        counts = np.array([number for _, number in options])
        present = classes.counts > 0
        seconds = float(np.min(held[:, present] @ classes.counts[present] / counts))
        if not np.isfinite(seconds):
            raise Infeasible("no kind serves these batches, alone or in groups; give larger GPUs or more of them")
        return seconds, basis
    return _mixed_seconds(
        problem, classes, Fluid(prices, world.cluster, problem.longest.tokens, Search(), groups)
    ), basis


def _mixed_seconds(problem: Problem, classes: Classes, fluid: Fluid) -> float:
    """The program over all mixes, replicas in fractions."""
    kept = undominated(fluid.prices, problem.longest.tokens, fluid.holders)
    fluid = replace(fluid, prices=fluid.prices.rows(kept))
    ideal = np.array([ideal_seconds(fluid.prices, amounts, fluid.cluster.gpus) for amounts in classes.by_batch])
    found = deploy_sampled(fluid, classes.by_batch, 1.1 * ideal, whole=False)
    if found is None:
        raise Infeasible("no mix of replicas serves these batches; give larger GPUs or more of them")
    return found.bound_seconds


def _weakest(world: World, kinds: Sequence[Kind], groups: int) -> str:
    """Of all kinds that might be chosen, and of groups of two where micro-batches are shared."""
    said: list[Provenance] = []
    for kind in kinds:
        said.append(world.cost.provenance(kind.config, world.workload.tenants))
        if groups > 1 and most(kind.config, world.cluster) > 1:
            try:
                said.append(world.cost.provenance(kind.config, world.workload.tenants, 2))
            except BadInput:  # a kind whose heads cannot be shared out
                continue
    return max((each.status for each in said), key=STATUSES.index)


def _joint(world: World, seed: int, batches: Sequence[Batch]) -> Gain:
    """All tenants in one step, against one after another on the same kinds of plans, each with its own best."""
    number = len(world.workload.tenants)
    if number < 2:
        return Gain(JOINT, None, 1.0, "-", "there is one tenant; give a YAML of tenants to ask about it")
    alone = [baseline(replace(world, workload=world.workload.only([tenant])), seed) for tenant in range(number)]
    seconds, basis = least_seconds(world, batches, PADDED, mixed=False, groups=1)
    total = sum(each.seconds for each in alone)
    return Gain(JOINT, seconds, total, max((basis, *(each.basis for each in alone)), key=STATUSES.index))


def padding_of(world: World, seed: int) -> float:
    """Tokens that the baseline's widths make of every real token: 1 without padding."""
    problem = problem_of(Space(), world.workload, "limit", model=world.model, cluster=world.cluster, cost=world.cost)
    batches = within_reach(planning_batches(world.workload, BATCHES, seed))
    kinds = tuple(kind for kind, _ in problem.homogeneous())
    buckets = [bucket for batch in batches for bucket in PADDED.bucket(batch, problem.menu(kinds), world.cost)]
    real = sum(bucket.sequences.tokens for bucket in buckets)
    return sum(bucket.width * bucket.count for bucket in buckets) / real


def single_replica_kinds(world: World) -> tuple[tuple[Kind, int], ...]:
    """Every kind there is room for, and how many replicas of it."""
    problem = problem_of(Space(), world.workload, "limit", model=world.model, cluster=world.cluster, cost=world.cost)
    return tuple((kind, whole_units(kind, world.cluster)) for kind in problem.kinds)


def pooled_lengths(world: World, seed: int) -> tuple[Array, Array]:
    """The lengths of the planning batches and how many of each a step has; int64 and float64 [n]."""
    batches = within_reach(planning_batches(world.workload, BATCHES, seed))
    lengths, counts = np.unique(np.concatenate([batch.length for batch in batches]), return_counts=True)
    return lengths, counts / len(batches)
