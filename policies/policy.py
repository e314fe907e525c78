"""A policy: four parts under a name, and the one path from a batch to a step plan."""

from collections.abc import Iterator
from dataclasses import dataclass

from lobra.batch import Batch
from lobra.plan import DeploymentPlan, MicroBatch, StepPlan
from lobra.protocols import Batching, CostModel, DeploymentPolicy, DispatchPolicy, Grouping


@dataclass(frozen=True, slots=True)
class Policy:
    """Who trains together, on which replicas, in which micro-batches, and where."""

    name: str
    grouping: Grouping
    deployment: DeploymentPolicy
    batching: Batching
    dispatch: DispatchPolicy

    def steps(self, batches: Iterator[Batch], plan: DeploymentPlan, cost: CostModel) -> Iterator[StepPlan]:
        """One step plan a batch, made when it is asked for."""
        for batch in batches:
            yield step_plan(batch, plan, self.batching, self.dispatch, cost)


def step_plan(
    batch: Batch, plan: DeploymentPlan, batching: Batching, dispatch: DispatchPolicy, cost: CostModel
) -> StepPlan:
    """Batch -> buckets -> shares -> micro-batches. Shared micro-batches come first, in one order on all members."""
    buckets = batching.bucket(batch, plan, cost)
    assignment = dispatch.assign(buckets, plan, batching, cost)
    shared: list[list[MicroBatch]] = [[] for _ in plan.replicas]
    for microbatch in assignment.shared:
        for member in microbatch.group:
            shared[member].append(microbatch)
    work = tuple(
        (*together, *batching.form(share, replica, cost))
        for together, share, replica in zip(shared, assignment.shares, plan.replicas, strict=True)
    )
    return StepPlan(batch.step, work)
