"""Policies on real ranks in rounds: in each, a job in which every policy plays the same held-out batches.

All policies take turns within a round, in reverse every other round, so a slow moment of the machine meets all of them
and every step is timed once a round. A policy that trains groups one after another has a part a group. Before each part
its deployment is taken into service if the running one differs; the part's first step warms up and does not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from executor.description import Execution
from experiments.progress import reporting
from experiments.schema_executor import Torch
from experiments.torch_backend import launched
from experiments.walk import World
from lobra.batch import Array
from lobra.plan import DeploymentPlan, StepPlan
from policies.policy import Policy
from sim.simulator import Simulator

Directive = DeploymentPlan | StepPlan


@dataclass(frozen=True, slots=True)
class Part:
    """What a policy does with one group of tenants; its first step warms up."""

    policy: str
    group: int
    plan: DeploymentPlan
    steps: tuple[StepPlan, ...]

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The part as a stream of its own."""
        return (self.plan, *self.steps)


def parts_of(policies: Mapping[str, Policy], world: World, steps: int) -> list[Part]:
    """Every policy's decisions on the same batches, one more than `steps` to warm up with."""
    found = []
    for name, policy in policies.items():
        for number, group in enumerate(policy.grouping.groups(world.workload)):
            plan = policy.deployment.plan(group, world.model, world.cluster, world.cost)
            planned = tuple(policy.steps(group.batches(steps + 1), plan, world.cost))
            found.append(Part(name, number, plan, planned))
    return found


def round_of(parts: Sequence[Part], number: int) -> tuple[list[Directive], list[tuple[int, int]]]:
    """The stream of a round's job; and of each of its steps the part and the place in the part."""
    directives: list[Directive] = []
    places: list[tuple[int, int]] = []
    running: DeploymentPlan | None = None
    order = range(len(parts)) if number % 2 == 0 else reversed(range(len(parts)))
    for place in order:
        plan = parts[place].plan
        if running is None or (running.replicas, running.tenants) != (plan.replicas, plan.tenants):
            directives.append(plan)
            running = plan
        for position, step in enumerate(parts[place].steps):
            directives.append(replace(step, step=len(places)))
            places.append((place, position))
    return directives, places


def played(parts: Sequence[Part], number: int, execution: Execution, folder: Path) -> list[Array]:
    """A round's seconds of each part, float64 [steps]: without what warms up, and without waiting for plans."""
    directives, places = round_of(parts, number)
    quiet = replace(execution, checkpoint_steps=0, checkpoint_seconds=1e9)
    backend = launched(Torch(resume=False), quiet)(folder)
    seconds = [np.zeros(len(part.steps)) for part in parts]
    with reporting(1) as reporter, reporter.part(f"round {number + 1}", len(places)) as tick:
        for (place, position), report in zip(places, backend.play(iter(directives)), strict=True):
            seconds[place][position] = report.seconds - report.wait_seconds
            tick()
    return [each[1:] for each in seconds]


def told(parts: Sequence[Part], simulators: Sequence[Simulator]) -> list[Array]:
    """Seconds of each part, float64 [steps], without the step that warms up: medians over simulators."""
    return [np.median([_played(simulator, part) for simulator in simulators], axis=0) for part in parts]


def _played(simulator: Simulator, part: Part) -> list[float]:
    return [report.seconds for report in simulator.play(iter(part.directives))][1:]
