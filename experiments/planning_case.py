"""A planning case: one group of tenants, the policy that serves them, and the judge of all its candidate plans."""

from dataclasses import dataclass

import numpy as np

from experiments.compare import STATUSES
from experiments.walk import World
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel
from policies.deployment.expected import Longest, planning_batches
from policies.deployment.judge import Judge, within_reach
from policies.evaluate import work_seconds
from policies.policy import Policy, step_plan


@dataclass(frozen=True, slots=True)
class Case:
    """What every figure of a plan is judged with."""

    world: World  # its workload is the group's
    policy: Policy
    batches: int
    seed: int
    longest: Longest

    def judge(self) -> Judge:
        """The judge that the policy's own planner asks: the same batches, batching, dispatch and prices."""
        drawn = within_reach(planning_batches(self.world.workload, self.batches, self.seed))
        return Judge(drawn, self.policy.batching, self.policy.dispatch, self.world.cost)


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """The planning batches as this plan would run them."""

    steps: tuple[StepPlan, ...]
    busy: Array  # float64 [steps, replicas], seconds of a replica's micro-batches by the closed form
    synchronise: float  # seconds

    @property
    def step_seconds(self) -> float:
        """Of a step, on average: the slowest replica, then the synchronisation."""
        return float(self.busy.max(axis=1).mean()) + self.synchronise

    @property
    def shards(self) -> int:
        """Replicas that compute a micro-batch together, at most."""
        work = (microbatch for step in self.steps for share in step.work for microbatch in share)
        return max(1, *(len(microbatch.group) for microbatch in work))


def play(plan: DeploymentPlan, judge: Judge) -> Played:
    """Every planning batch on this plan."""
    steps = tuple(step_plan(batch, plan, judge.batching, judge.dispatch, judge.cost) for batch in judge.batches)
    busy = [
        [work_seconds(work, replica, judge.cost) for work, replica in zip(step.work, plan.replicas, strict=True)]
        for step in steps
    ]
    return Played(steps, np.array(busy), judge.cost.synchronise_seconds(plan))


def standing(plan: DeploymentPlan, cost: CostModel, shards: int = 1) -> tuple[str, tuple[str, ...]]:
    """What a plan's seconds rest on: the weakest status of its configurations, and every note once."""
    weakest, notes = 0, dict[str, None]()
    for config in sorted({replica.config for replica in plan.replicas}):
        try:
            provenance = cost.provenance(config, plan.tenants, shards)
        except BadInput:  # a group of another size, of another kind of replica
            provenance = cost.provenance(config, plan.tenants)
        weakest = max(weakest, STATUSES.index(provenance.status))
        notes.update(dict.fromkeys(provenance.notes))
    return STATUSES[weakest], tuple(notes)
