"""The verbs: what a room must answer to take its place in the house."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

from lobra.batch import Array, Batch, Bucket, Histogram
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, Shape, StepPlan
from lobra.rates import Assignment, Loads, Provenance, Rates
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from lobra.trace import StepReport


class Workload(Protocol):
    """Tenants and the sequences they bring."""

    @property
    def tenants(self) -> tuple[Tenant, ...]:
        """Who trains."""

    def lengths(self, tenant: int) -> Histogram:
        """What a planner may know beforehand: the lengths of one tenant, over-long policy applied."""

    def batches(self, steps: int) -> Iterator[Batch]:
        """What really comes. Pure: every call gives the same batches, from streams keyed by (seed, tenant, step)."""

    def only(self, tenants: Sequence[int]) -> "Workload":
        """The same workload with these tenants alone, renumbered from 0; their sequences stay the same."""


class CostModel(Protocol):
    """How long, how large: one model on one kind of hardware."""

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price (recompute 0): the candidates of a planner."""

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold; 0 where even the weights do not fit. Memory depends on who is there."""

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of micro-batches of these widths, computed by `shards` equal replicas together."""

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage for one micro-batch."""

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand a micro-batch's activations (or their gradients) to the next stage."""

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients over all replicas and to update."""

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers for this configuration, these tenants and groups of `shards` replicas rest on."""


class DeploymentPolicy(Protocol):
    """Which replicas."""

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """A plan that holds every admissible sequence; Infeasible where there is none."""


class Batching(Protocol):
    """Padding or packing: from sequences to micro-batches."""

    def bucket(self, batch: Batch, plan: DeploymentPlan, cost: CostModel) -> tuple[Bucket, ...]:
        """Before dispatch: what is counted. Ascending widths, no empty bucket, every sequence in one."""

    def loads(self, buckets: tuple[Bucket, ...], replica: Replica, cost: CostModel, shards: int = 1) -> Loads:
        """What a count of each bucket costs on this replica, or on a group of `shards` replicas like it."""

    def form(
        self, share: tuple[Bucket, ...], replica: Replica, cost: CostModel, group: tuple[int, ...] = ()
    ) -> tuple[MicroBatch, ...]:
        """After dispatch: micro-batches, costliest first, that fit the replica (or the group)."""


class DispatchPolicy(Protocol):
    """Which sequences go to which replica."""

    def assign(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        """Every sequence to exactly one replica or group that can hold it."""


class Grouping(Protocol):
    """Who trains together."""

    def groups(self, workload: Workload) -> tuple[Workload, ...]:
        """Workloads that run one after another on the whole cluster."""


class Backend(Protocol):
    """Plays directives, in fake time or on real devices."""

    def play(self, directives: Iterable[DeploymentPlan | StepPlan]) -> Iterator[StepReport]:
        """One report a step plan, in order; a DeploymentPlan in mid-stream re-deploys."""
