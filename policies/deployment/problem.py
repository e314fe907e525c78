"""One deployment to decide: who, on what, from which kinds, and what it must be ready for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lobra.plan import Certificate, DeploymentPlan
from lobra.protocols import CostModel, Workload
from lobra.spec import ClusterSpec, ModelSpec
from policies.deployment.expected import Longest, LongestSequence, longest_sequence
from policies.deployment.kinds import Space, kinds
from policies.deployment.placement import Kind, most, place
from policies.deployment.refusal import no_kind_fits, too_long


@dataclass(frozen=True, slots=True)
class Problem:
    """What a planner is given, and the kinds it may use; at least one."""

    workload: Workload
    model: ModelSpec
    cluster: ClusterSpec
    cost: CostModel
    kinds: tuple[Kind, ...]
    longest: LongestSequence
    groups: int = 1  # replicas that may share a micro-batch, at most; powers of two

    def plan(self, counts: Sequence[tuple[Kind, int]], certificate: Certificate | None = None) -> DeploymentPlan:
        """These replicas in their places; Infeasible where they have none."""
        replicas = place(counts, self.cluster)
        return DeploymentPlan(self.model, self.cluster, self.workload.tenants, replicas, certificate)

    def menu(self, kinds: Sequence[Kind]) -> DeploymentPlan:
        """One replica of each of these kinds, on a cluster as large as that takes: what a bucketing rule looks at."""
        room = max(kind.config.gpus for kind in kinds)
        large = replace(self.cluster, nodes=len(kinds), gpus_per_node=room, node_sizes=None)
        replicas = place([(Kind(replace(kind.config, fsdp=1), kind.budget), 1) for kind in kinds], large)
        return DeploymentPlan(self.model, large, self.workload.tenants, replicas)

    def homogeneous(self, groups: int | None = 1) -> tuple[tuple[Kind, int], ...]:
        """Kinds that hold the longest sequence, each with as many replicas as there is room for; Infeasible if none.

        `groups`: so many replicas of a kind may hold together what one cannot; None: all of them.
        """
        counted = [(kind, whole_units(kind, self.cluster)) for kind in self.kinds]
        together = [count if groups is None else min(count, groups) for _, count in counted]
        reach = [kind.budget * number for (kind, _), number in zip(counted, together, strict=True)]
        options = tuple(option for option, tokens in zip(counted, reach, strict=True) if tokens >= self.longest.tokens)
        if options:
            return options
        place = max(range(len(counted)), key=lambda place: reach[place])
        kind = counted[place][0]
        raise too_long(
            self.longest,
            kind,
            together[place],
            model=self.model,
            cluster=self.cluster,
            tenants=self.workload.tenants,
            cost=self.cost,
        )


def whole_units(kind: Kind, cluster: ClusterSpec) -> int:
    """How many replicas there is room for; those that share their weights come together."""
    number = most(kind.config, cluster)
    return number - number % kind.config.fsdp


def problem_of(
    space: Space,
    workload: Workload,
    longest: Longest,
    *,
    model: ModelSpec,
    cluster: ClusterSpec,
    cost: CostModel,
    groups: int = 1,
) -> Problem:
    """The problem with all kinds of the space that fit; Infeasible where none does."""
    found = kinds(space, model, cluster, workload.tenants, cost)
    if not found:
        raise no_kind_fits(model, cluster, workload.tenants, cost)
    return Problem(workload, model, cluster, cost, found, longest_sequence(workload, longest), groups)
