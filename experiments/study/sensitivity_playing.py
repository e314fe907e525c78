"""The work of the sensitivity points: plan every policy, then time real batches by the closed form, no traces kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.build import build_policy, build_world
from experiments.failures import EXPECTED, exit_code_of, reason
from experiments.job import Job
from experiments.planning_case import play, standing
from experiments.walk import World
from lobra.batch import Batch
from policies.deployment.judge import Judge
from policies.policy import Policy


def weighed(job: Job, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """GPU seconds of each policy's steps on the same batches, none of which it planned with; and its plan.

    A policy that cannot be planned is in it with its reason. options: where the point lies on a grid, handed through.
    """
    world = build_world(job.config)
    batches = tuple(world.workload.batches(job.config.steps))
    bodies: dict[str, Any] = {}
    for name, wanted in job.policies.items():
        try:
            bodies[name] = _weighed(build_policy(wanted, job.config.seed), world, batches)
        except EXPECTED as error:
            bodies[name] = {"failed": reason(error), "exit_code": exit_code_of(error)}
    return {"policies": bodies, "gpus": world.cluster.gpus, **options}


def _weighed(policy: Policy, world: World, batches: tuple[Batch, ...]) -> dict[str, Any]:
    plan = policy.deployment.plan(world.workload, world.model, world.cluster, world.cost)
    played = play(plan, Judge(batches, policy.batching, policy.dispatch, world.cost))
    seconds = played.busy.max(axis=1) + played.synchronise
    return {
        "gpu_seconds_per_step": (seconds * world.cluster.gpus).tolist(),
        "plan": plan.summary(),
        "status": standing(plan, world.cost, played.shards)[0],
    }
