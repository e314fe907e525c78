"""Small worlds for capacity questions: toy prices, three kinds of tenants, arrivals by hand."""

from experiments.capacity.composing import kinds_of
from experiments.capacity.oracle import Oracle
from experiments.walk import World
from lobra.spec import Tenant
from policies.batching.boundaries import DynamicBuckets
from policies.batching.padded import Padded
from policies.deployment.heterogeneous import Heterogeneous
from policies.dispatch.balanced import Balanced
from policies.grouping import Together
from policies.policy import Policy
from toys import MODEL, ToyCost, ToyWorkload, cluster, tenant
from workloads.arrivals.nouns import Arrival, Budget

CHOICES = {
    "short": (40, 60, 80, 100, 160),
    "middle": (200, 300, 450, 900),
    "long": (300, 700, 1500, 2500, 4000),
}
KINDS = {"short": tenant("short", 32, 512), "middle": tenant("middle", 16, 1024), "long": tenant("long", 8, 4096)}


def policy() -> Policy:
    """Heterogeneous replicas, padded, balanced; planned in a moment."""
    batching, dispatch = Padded(DynamicBuckets()), Balanced(work=0)
    planner = Heterogeneous(batching, dispatch, batches=1, pool=2, exchanges=0)
    return Policy("small", Together(), planner, batching, dispatch)


def arrival(name: str, kind: str, at: float, steps: int = 10, **more: object) -> Arrival:
    """A tenant of a kind."""
    known = KINDS[kind]
    who = Tenant(name, known.batch_size, known.context_limit)
    return Arrival(who, at, Budget(steps), kind=kind, **more)  # type: ignore[arg-type]


def oracle(*arrivals: Arrival, cost: ToyCost | None = None, nodes: int = 1) -> Oracle:
    """Of these tenants on nodes of 8 GPUs."""
    workload = ToyWorkload(
        tuple(each.tenant for each in arrivals), tuple(CHOICES[each.kind] for each in arrivals), seed=0
    )
    world = World(workload, MODEL, cluster(nodes), cost or ToyCost())
    return Oracle(world, policy(), kinds_of(arrivals), batches=2)
