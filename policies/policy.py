"""A policy: four parts under a name, and the one path from a batch to a step plan; or an order that flushes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from lobra.batch import Batch
from lobra.plan import DeploymentPlan, MicroBatch, StepPlan
from lobra.protocols import Batching, CostModel, DeploymentPolicy, DispatchPolicy, Grouping


class Order(Protocol):
    """Another path from batches to step plans: without a flush between steps, tenants updating one by one."""

    def steps(self, batches: Iterator[Batch], plan: DeploymentPlan, cost: CostModel) -> Iterator[StepPlan]:
        """One or more step plans a batch, in the order of the batches; it may look ahead over several."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who trains together, on which replicas, in which micro-batches, and where."""

    name: str
    grouping: Grouping
    deployment: DeploymentPolicy
    batching: Batching
    dispatch: DispatchPolicy
    order: Order | None = None  # None: every step is flushed; else batching and dispatch serve the planner alone

    def steps(self, batches: Iterator[Batch], plan: DeploymentPlan, cost: CostModel) -> Iterator[StepPlan]:
        """Step plans, made when they are asked for: one a batch, or as the order says."""
        if self.order is not None:
            yield from self.order.steps(batches, plan, cost)
            return
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
