"""A running plan under other tenants: the same replicas in the same places, with budgets that fit who is there now.

Memory depends on the tenants, so a budget may shrink when some arrive and grow when some leave; it keeps its share of
what fits (all, or a half for a shorter bubble). Nothing moves for that. A plan may have become impossible, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig
from lobra.protocols import CostModel, Workload
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from policies.deployment.expected import Longest, longest_sequence, single
from policies.deployment.judge import Judge


@dataclass(frozen=True, slots=True)
class Impossible:
    """Why the running plan cannot go on."""

    reason: str


def carried(
    running: DeploymentPlan, workload: Workload, judge: Judge, longest: Longest = "limit"
) -> DeploymentPlan | Impossible:
    """The running plan for these tenants, or why it cannot serve them."""
    tenants, cost = workload.tenants, judge.cost
    replicas, budgets = [], dict[tuple[ReplicaConfig, int], int]()  # equal replicas are asked for once
    for replica in running.replicas:
        key = (replica.config, replica.budget)
        if key not in budgets:
            budgets[key] = _budget(replica, running.tenants, tenants, cost)
        budget = budgets[key]
        if budget < 1:
            return Impossible(f"the adapters of {len(tenants)} tenants leave a replica {replica.config} no memory")
        replicas.append(replace(replica, budget=budget))
    plan = DeploymentPlan(running.model, running.cluster, tenants, tuple(replicas))
    need = longest_sequence(workload, longest)
    if max(replica.budget for replica in replicas) < need.tokens:
        probe = Judge((single(need.tokens),), judge.batching, judge.dispatch, cost)
        if not probe.holds(plan):  # a dispatch that shares micro-batches may hold more than any replica
            return Impossible(
                f"tenant '{need.tenant}' may bring a sequence of {need.tokens} tokens ({need.reason}), and none of its "
                "replicas holds it"
            )
    return plan


def check_running(running: DeploymentPlan, workload: Workload, model: ModelSpec, cluster: ClusterSpec) -> None:
    """Refuse a running plan of another model or cluster, and a tenant who changed: a run keeps all three."""
    if running.model != model:
        raise BadInput(f"running: the plan is of model '{running.model.name}', not of '{model.name}' as given here")
    if running.cluster != cluster:
        raise BadInput(
            f"running: the plan is of {running.cluster.gpus} GPUs of cluster '{running.cluster.name}', and the cluster "
            f"given here has {cluster.gpus} of '{cluster.name}' or other figures; give the cluster that it runs on"
        )
    known = {tenant.name: tenant for tenant in running.tenants}
    for tenant in workload.tenants:
        if known.get(tenant.name, tenant) != tenant:
            raise BadInput(
                f"tenant '{tenant.name}': it differs from the one in the running plan; end it and give it a new name"
            )


def _budget(replica: Replica, old: Sequence[Tenant], new: Sequence[Tenant], cost: CostModel) -> int:
    before, now = cost.max_tokens(replica.config, old), cost.max_tokens(replica.config, new)
    if now < 1 or before < 1:
        return min(replica.budget, now)
    return min(now, max(1, now * replica.budget // before))
