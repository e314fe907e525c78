"""What a tenant's part of a step weighs under the rules of accounting: tokens, work, Shapley values.

Work: every sequence costs the GPU seconds it takes at the least, on the configuration of the cluster that suits it
best, in the best micro-batch there (`policies.bounds.least_each`): who it trains with changes nothing. Shapley: the
cost of a coalition is what the fluid bound lets its sequences take on the replicas of the full set's plan, times their
GPUs; a fluid of more sequences never takes less, and two coalitions together never more than each by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from experiments.capacity.accounting import RULES, Rule, Weights
from experiments.capacity.oracle import Kinds, Oracle
from experiments.capacity.shapley import Cost, coalition_costs, shapley
from lobra.batch import Array, Bucket
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, Replica
from lobra.rates import Loads
from policies.bounds.fluid import least_each, priced_fluid


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """One batch of a tenant set: N tenants (the stand-ins, in order), J buckets, K configurations."""

    tokens: Array  # float64 [N], useful
    counts: Array  # int64 [N, J]
    work: Array  # float64 [N], GPU seconds at the cheapest shapes
    each: Array  # float64 [K, J], seconds of a sequence on a replica of the plan, at least; inf: it does not fit
    replicas: Array  # int64 [K], of the plan
    gpus: int  # of those replicas


def priced(oracle: Oracle, kinds: Kinds) -> tuple[Priced, ...]:
    """Every planning batch of these kinds; Infeasible where a sequence fits no configuration alone."""
    plan, judge = oracle.plan(kinds), oracle.judge(kinds)
    made = []
    for batch in judge.batches:
        buckets = judge.batching.bucket(batch, plan, judge.cost)
        count = len(plan.tenants)
        counts = np.stack([np.bincount(each.sequences.tenant, minlength=count) for each in buckets], axis=1)
        tokens = np.bincount(batch.tenant, weights=batch.length, minlength=count)
        cheapest = cheapest_each(oracle, plan, buckets)
        if not np.isfinite(cheapest).all():
            raise Infeasible("accounting: a sequence fits no configuration by itself; use the rule tokens")
        shapes = {(each.config, each.budget): each for each in plan.replicas}
        numbers = [sum((each.config, each.budget) == shape for each in plan.replicas) for shape in shapes]
        loads = [judge.batching.loads(buckets, each, judge.cost) for each in shapes.values()]
        made.append(
            Priced(
                tokens,
                counts,
                counts @ cheapest,
                np.stack([_certain(each) for each in loads]),
                np.array(numbers),
                sum(each.config.gpus for each in plan.replicas),
            )
        )
    return tuple(made)


def cheapest_each(oracle: Oracle, plan: DeploymentPlan, buckets: tuple[Bucket, ...]) -> Array:
    """GPU seconds of a sequence of each bucket at its cheapest feasible shape; float64 [J], inf: it fits nowhere."""
    found: Array = np.min([_gpu_seconds(oracle, buckets, each) for each in _everything(oracle, plan)], axis=0)
    return found


def coalition_cost(batches: tuple[Priced, ...], names: tuple[str, ...]) -> Cost:
    """GPU seconds that a step of some of these tenants takes at the least on the plan of all, on average."""

    def cost(some: frozenset[str]) -> float:
        rows = [number for number, name in enumerate(names) if name in some]
        found = (
            priced_fluid(each.each, each.replicas.tolist(), each.counts[rows].sum(axis=0)).seconds * each.gpus
            for each in batches
        )
        return sum(found) / len(batches)

    return cost


@dataclass(frozen=True, slots=True, eq=False)
class OracleWeights:
    """`Weights` of a rule; tenants of one kind weigh the same, the mean of their stand-ins."""

    oracle: Oracle
    rule: Rule = "work"
    _known: dict[Kinds, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise BadInput(f"accounting: rule is {self.rule!r}; choose {', '.join(RULES)}")

    def __call__(self, tenants: tuple[str, ...], /) -> Mapping[str, float]:
        """By tenant: tokens, or GPU seconds of a step."""
        kind_of = self.oracle.kind_of
        if self.rule != "shapley":
            return {name: self._weigh(((kind_of[name], 1),))[kind_of[name]] for name in tenants}
        by_kind = self._weigh(self.oracle.kinds(tenants))
        return {name: by_kind[kind_of[name]] for name in tenants}

    def _weigh(self, kinds: Kinds) -> dict[str, float]:
        """By kind, worked out once; tokens and work of a kind do not depend on the others, so it is asked alone."""
        if kinds not in self._known:
            names = tuple(tenant.name for tenant in self.oracle.plan(kinds).tenants)
            batches = priced(self.oracle, kinds)
            if self.rule == "shapley":
                by_name = shapley(names, coalition_costs(names, coalition_cost(batches, names)))
                values = [by_name[name] for name in names]
            else:
                values = np.mean([getattr(each, self.rule) for each in batches], axis=0).tolist()
            groups: dict[str, list[float]] = {}
            for name, value in zip(names, values, strict=True):
                groups.setdefault(self.oracle.kind_of[name], []).append(value)
            self._known[kinds] = {kind: max(0.0, sum(group) / len(group)) for kind, group in groups.items()}
        return self._known[kinds]


def weights(oracle: Oracle, rule: Rule) -> Weights:
    """The weights of a rule."""
    return OracleWeights(oracle, rule)


def _everything(oracle: Oracle, plan: DeploymentPlan) -> list[Replica]:
    """One replica of every configuration that the cluster can hold, with all the memory there is."""
    cost, room = oracle.world.cost, oracle.world.cluster.gpus
    budgets = {each: cost.max_tokens(each, plan.tenants) for each in cost.configs() if each.gpus <= room}
    return [Replica(each, tuple(range(each.gpus)), budget) for each, budget in budgets.items() if budget > 0]


def _gpu_seconds(oracle: Oracle, buckets: tuple[Bucket, ...], replica: Replica) -> Array:
    loads = oracle.policy.batching.loads(buckets, replica, oracle.world.cost)
    return _certain(loads) * replica.config.gpus


def _certain(loads: Loads) -> Array:
    """Seconds a sequence adds at the least; where `each` is an estimate, the part of it that is certain."""
    return least_each(loads if loads.least is None else replace(loads, each=loads.least, least=None))
