"""What step plans cost in closed form: also where weights are sharded, which the simulator does not play.

As the planner's judge does: a replica's micro-batches one after another, with the pipeline's filling by the slowest of
them, then the synchronisation. Transfers between stages are left out, of both sides.
"""

from collections.abc import Sequence

import numpy as np

from costmodel.uncertainty import drawn
from experiments.intervals import Played, sigmas_in_use
from lobra.batch import Array
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape, StepPlan
from lobra.protocols import CostModel
from lobra.schedule import closed_form, stage_sizes


def step_seconds(plan: DeploymentPlan, steps: Sequence[StepPlan], cost: CostModel) -> Array:
    """Seconds of each step; float64 [steps]."""
    known: dict[tuple[ReplicaConfig, tuple[int, ...] | None, Shape], float] = {}
    synchronise, found = cost.synchronise_seconds(plan), []
    for step in steps:
        slowest = 0.0
        for replica, work in zip(plan.replicas, step.work, strict=True):
            seconds = []
            for microbatch in work:
                key = (replica.config, replica.layers, microbatch.shape)
                if key not in known:
                    known[key] = _slowest_stage(plan.model.layers, replica, microbatch.shape, cost)
                seconds.append(known[key])
            slowest = max(slowest, closed_form(seconds, replica.config.pp))
        found.append(slowest + synchronise)
    return np.array(found)


def drawn_factors(
    plan: DeploymentPlan, steps: Sequence[StepPlan], cost: CostModel, *, seed: int, draws: int
) -> list[float]:
    """By how much the steps' seconds change in each draw of the prices; a draw's chance is the same for every plan."""
    sigmas = sigmas_in_use({"it": Played(0.0, 0.0, ((plan, *steps),))}, cost, 0.0)
    usual = float(step_seconds(plan, steps, cost).sum())
    truths = (drawn(cost, sigmas, seed=seed, draw=draw) for draw in range(draws))
    return [float(step_seconds(plan, steps, truth).sum()) / usual for truth in truths]


def _slowest_stage(layers: int, replica: Replica, shape: Shape, cost: CostModel) -> float:
    """Forward plus backward; stages of the same number of layers differ only at both ends."""
    sizes = stage_sizes(layers, replica.config.pp, replica.layers)
    unlike = {0, len(sizes) - 1, *(sizes.index(size) for size in set(sizes[1:-1]))}
    return max(
        cost.stage_seconds(replica, stage, shape, "forward") + cost.stage_seconds(replica, stage, shape, "backward")
        for stage in unlike
    )
