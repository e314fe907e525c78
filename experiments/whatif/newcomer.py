"""One more tenant: read by name or from a file, put beside the team, and what it needs where it does not fit."""

from dataclasses import dataclass, replace
from typing import Any

from experiments.capacity.oracle import Oracle
from experiments.gain_lengths import lengths_workload
from experiments.whatif.asking import Asked, on_cluster, with_workload
from experiments.whatif.words import budget_of, seconds_of
from lobra.errors import BadInput
from lobra.spec import ClusterSpec, Tenant
from policies.deployment.expected import longest_sequence
from workloads.arrivals.nouns import Offer, check_names
from workloads.sampled import SampledWorkload

LONGEST = 1 << 20  # tokens
NODE = 8  # GPUs of a usual node
USUAL_BATCH = 16  # sequences a step where neither key nor file says


@dataclass(frozen=True, slots=True)
class Room:
    """Where a tenant does not fit."""

    tokens: int  # its longest sequence
    admissible: int  # the longest that this cluster would hold beside the others
    needs: str  # the smallest configuration that holds it; "" where none does


def with_newcomer(asked: Asked) -> tuple[Asked, str]:
    """The team and one more, and its name; it comes later than the plan that a fleet that never moves begins with."""
    config, team = asked.config, asked.workload
    if config.tenant is None:
        raise BadInput("tenant: a value is missing; give a set of the catalogue, such as meetingbank, or a YAML file")
    if config.arrivals.kind != "together":
        raise BadInput(f"arrivals.kind is {config.arrivals.kind!r}; add-tenant asks of a team: arrivals.kind=together")
    tenant, source = _tenant(asked, config.tenant)
    names = [each.name for each in team.tenants]
    if tenant.name in names:
        tenant = replace(tenant, name=f"{tenant.name}-new")
    check_names([*names, tenant.name])
    key = "budget" if config.newcomer.budget is None else "newcomer.budget"
    budget = budget_of(key, config.newcomer.budget or config.budget)
    workload = SampledWorkload((*team.tenants, tenant), (*team.sources, source), team.seed, team.sampler)
    both = with_workload(asked, workload, (*asked.offers, Offer(tenant, budget)))
    return replace(both, late={tenant.name: seconds_of("newcomer.at", config.newcomer.at)}), tenant.name


def room_of(asked: Asked, oracle: Oracle, name: str) -> Room | None:
    """What the newcomer lacks alone; None where it fits. What it needs is sought on two nodes or more."""
    kinds = oracle.kinds((name,))
    if oracle.fits(kinds):
        return None
    workload, gpus = oracle.workload(kinds), oracle.world.cluster.gpus
    cluster = asked.config.cluster
    more = replace(
        cluster, nodes=max(2, cluster.nodes), gpus_per_node=max(NODE, cluster.gpus_per_node), node_sizes=None
    )
    cost = on_cluster(asked, more).world.cost
    held = {config: cost.max_tokens(config, workload.tenants) for config in cost.configs()}
    need = longest_sequence(workload, oracle.longest).tokens
    admissible = max((tokens for config, tokens in held.items() if config.gpus <= gpus), default=0)
    fitting = [config for config, tokens in held.items() if tokens >= need]
    smallest = min(fitting, key=lambda config: (config.gpus, config.pp), default=None)
    needs = "" if smallest is None else f"tp {smallest.tp}, pp {smallest.pp} ({smallest.gpus} GPUs)"
    return Room(need, admissible, needs)


def memory_of(cluster: ClusterSpec) -> str:
    """For sentences."""
    return f"{cluster.gpus} GPUs of {cluster.gpu.memory_gib:g} GiB"


def _tenant(asked: Asked, given: str) -> tuple[Tenant, Any]:
    config = asked.config.newcomer
    for key, value in (("batch_size", config.batch_size), ("context_limit", config.context_limit)):
        if value is not None and value < 1:
            raise BadInput(f"newcomer.{key} is {value}; it must be a whole number >= 1")
    found = lengths_workload(
        given, batch_size=config.batch_size, max_length=config.context_limit or LONGEST, seed=asked.config.seed
    )
    if len(found.tenants) > 1:
        raise BadInput(f"tenant: {given} describes {len(found.tenants)} tenants; give one")
    (tenant,), (source,) = found.tenants, found.sources
    named = given.endswith((".yaml", ".yml"))
    changes: dict[str, Any] = {}
    if config.batch_size is None and not named:
        changes["batch_size"] = min(USUAL_BATCH, source.size or USUAL_BATCH)
    if config.context_limit is not None:
        changes["context_limit"] = config.context_limit
    return replace(tenant, **changes), source
