"""A fixed deployment, given as text: `1,1x6;2,1x1;8,1x1` is tp,pp x count, kind by kind.

The form is that of the published plans, so the paper's own plans can be replayed; `,r32` adds recomputed layers of a
stage, `,fsdp4` shards the frozen weights over four equal replicas each, and `/1024` sets a smaller micro-batch budget
than what fits: `1,1,r32,fsdp4x16`, `1,8/1024x2`. Nothing is repaired: a plan that asks for too much is refused with
what would fit. With batching and dispatch given, the plan is also judged, and bounded by the best that is known of its
dispatch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.errors import BadInput, Infeasible
from lobra.plan import Certificate, DeploymentPlan, ReplicaConfig
from lobra.protocols import Batching, CostModel, DispatchPolicy, Workload
from lobra.schedule import stage_sizes
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from policies.bounds.best import best_bound, mean_bound
from policies.deployment.classes import classes_of, table
from policies.deployment.expected import Longest, LongestSequence, longest_sequence, planning_batches
from policies.deployment.judge import Judge, within_reach
from policies.deployment.kinds import check_priced
from policies.deployment.placement import Kind, place
from policies.deployment.refusal import too_long

_ITEM = re.compile(r"(\d{1,6}),(\d{1,6})(?:,r(\d{1,6}))?(?:,fsdp(\d{1,6}))?(?:/(\d{1,9}))?x(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Wish:
    """One part of a fixed plan."""

    config: ReplicaConfig
    budget: int | None  # None: what fits
    count: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same replicas whatever the workload; a DeploymentPolicy."""

    replicas: str
    batching: Batching | None = None  # with dispatch: the plan gets a certificate
    dispatch: DispatchPolicy | None = None
    shared: bool = False  # a group of equal replicas may hold together what one cannot
    batches: int = 4  # planning batches of the certificate
    seed: int = 0
    longest: Longest = "limit"

    def __post_init__(self) -> None:
        parse(self.replicas)

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """The plan as written; BadInput or Infeasible says what is wrong with it here."""
        counts = [(_kind(wish, model, cluster, workload.tenants, cost), wish.count) for wish in parse(self.replicas)]
        plan = DeploymentPlan(model, cluster, workload.tenants, place(counts, cluster))
        self._check_longest(counts, longest_sequence(workload, self.longest), plan, cost)
        if self.batching is None or self.dispatch is None:
            return plan
        batches = within_reach(planning_batches(workload, self.batches, self.seed))
        judge = Judge(batches, self.batching, self.dispatch, cost)
        certificate = self._certificate(counts, plan, judge)
        return DeploymentPlan(model, cluster, workload.tenants, plan.replicas, certificate)

    def _check_longest(
        self, counts: Sequence[tuple[Kind, int]], longest: LongestSequence, plan: DeploymentPlan, cost: CostModel
    ) -> None:
        reach = [kind.budget * (count if self.shared else 1) for kind, count in counts]
        if max(reach) < longest.tokens:
            best = max(range(len(counts)), key=lambda place: reach[place])
            kind, count = counts[best]
            raise too_long(
                longest,
                kind,
                count if self.shared else 1,
                model=plan.model,
                cluster=plan.cluster,
                tenants=plan.tenants,
                cost=cost,
            )

    def _certificate(self, counts: Sequence[tuple[Kind, int]], plan: DeploymentPlan, judge: Judge) -> Certificate:
        """Judged on the planning batches; bounded by the best that is known of its dispatch (not where they share)."""
        bound, words = 0.0, "none: replicas share micro-batches"
        if not self.shared:
            kinds = [kind for kind, _ in counts]
            bounds = []
            for batch in judge.batches:
                classes = classes_of([batch], judge.batching, plan, judge.cost)
                prices = table(classes, kinds, judge.batching, judge.cost)
                numbers = [count for _, count in counts]
                bounds.append(best_bound(prices.loads, numbers, np.rint(classes.counts).astype(np.int64)))
            proven = mean_bound(bounds)
            bound, words = proven.seconds, proven.words("this plan alone on the planning batches in their buckets")
        return Certificate(
            expected_seconds=judge.seconds(plan),
            bound_seconds=bound,
            bound=words,
            solver="none",
            status="fixed",
            seed=self.seed,
        )


def parse(text: str) -> tuple[Wish, ...]:
    """The parts of a plan in text form, in order."""
    wishes = []
    for part in text.strip().split(";"):
        match = _ITEM.fullmatch(part.strip())
        if match is None:
            raise BadInput(
                f"replicas: {part.strip()!r} is not of the form tp,pp x count, such as 8,1x2 or 1,1,r32,fsdp4/1024x16, "
                f"parts joined by ';'"
            )
        tp, pp, recompute, fsdp, budget, count = (int(value) if value else 0 for value in match.groups())
        if not count:
            raise BadInput(f"replicas: {part.strip()!r} asks for 0 replicas; leave it out or ask for 1 or more")
        if budget == 0 and match.group(5):
            raise BadInput(f"replicas: {part.strip()!r} has a budget of 0 tokens; leave it out or give 1 or more")
        config = ReplicaConfig(tp, pp, recompute, fsdp if match.group(4) else 1)
        if count % config.fsdp:
            raise BadInput(
                f"replicas: {part.strip()!r} shards weights over {config.fsdp} equal replicas each; ask for a multiple "
                f"of {config.fsdp} replicas, such as {count + -count % config.fsdp}, not for {count}"
            )
        wishes.append(Wish(config, budget or None, count))
    return tuple(wishes)


def _kind(wish: Wish, model: ModelSpec, cluster: ClusterSpec, tenants: Sequence[Tenant], cost: CostModel) -> Kind:
    """The wish with its budget, checked against cost model, layers and memory."""
    check_priced(wish.config, cost.configs())
    largest = stage_sizes(model.layers, wish.config.pp)[0]
    if wish.config.recompute > largest:
        raise BadInput(
            f"replicas: {wish.config} recomputes {wish.config.recompute} layers of a stage, but none has over {largest}"
        )
    tokens = cost.max_tokens(wish.config, tenants)
    if tokens < 1:
        raise Infeasible(
            f"model '{model.name}' does not fit on a replica {wish.config} of cluster '{cluster.name}'; "
            f"use more GPUs a replica"
        )
    if wish.budget is not None and wish.budget > tokens:
        raise Infeasible(f"replicas: a budget of {wish.budget} tokens on {wish.config}, but {tokens} fit")
    return Kind(wish.config, wish.budget or tokens)
