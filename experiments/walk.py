"""The walk: one policy on one backend, group by group, every directive and every report written as it comes."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from experiments.acknowledged import STREAMS, TRACE, kept
from experiments.torch_backend import JOB
from experiments.traces import joined
from lobra.batch import Batch
from lobra.owed import Owed
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import Backend, CostModel, Workload
from lobra.spec import ClusterSpec, ModelSpec
from lobra.stream import Writer
from lobra.trace import StepReport
from policies.policy import Policy

Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class World:
    """What all policies of a comparison share."""

    workload: Workload
    model: ModelSpec
    cluster: ClusterSpec
    cost: CostModel


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What came of one group; its reports, one a step, are without their spans, which are in its trace."""

    plan: DeploymentPlan
    reports: tuple[StepReport, ...]
    planning_seconds: float  # wall clock, of the deployment
    dispatch_seconds: tuple[float, ...]  # wall clock, from a batch to its step plans
    truncated: dict[str, int]  # sequences cut to the context limit, by tenant
    dropped: dict[str, int]
    shards: int  # replicas that computed a micro-batch together, at most


@dataclass(slots=True)
class _Log:
    """Counts and wall-clock figures of a group in the making."""

    truncated: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    drawing: float = 0.0
    dispatch: dict[int, float] = field(default_factory=dict)  # by step
    shards: int = 1
    owed: Owed = field(default_factory=Owed)


def walk(
    policy: Policy,
    world: World,
    backend: Callable[[Path], Backend],
    *,
    steps: int,
    folder: Path,
    tick: Tick = lambda: None,
) -> tuple[GroupResult, ...]:
    """Play all groups, one after another, into `folder/0`, `folder/1`, ...; `tick` is called after every step.

    backend makes one for a group's folder.
    """
    groups = policy.grouping.groups(world.workload)
    return tuple(
        _walk_group(
            policy, replace(world, workload=group), backend, steps=steps, folder=folder / str(number), tick=tick
        )
        for number, group in enumerate(groups)
    )


def _walk_group(
    policy: Policy, world: World, backend: Callable[[Path], Backend], *, steps: int, folder: Path, tick: Tick
) -> GroupResult:
    started = time.perf_counter()
    plan = policy.deployment.plan(world.workload, world.model, world.cluster, world.cost)
    planning = time.perf_counter() - started
    log, reports = _Log(), list[StepReport]()
    with (
        kept(folder, STREAMS, TRACE) if (folder / JOB).is_dir() else nullcontext(),
        Writer(folder / "directives.jsonl") as directives,
        Writer(folder / "trace.jsonl") as trace,
        (folder / "timings.jsonl").open("w", encoding="utf-8", newline="\n") as timings,
    ):
        _write_line(timings, {"planning_seconds": planning})
        made = _directives(policy, plan, world, steps=steps, writer=directives, log=log, timings=timings)
        for report in backend(folder).play(made):
            trace.append(report)
            if not reports or reports[-1].step != report.step:
                tick()
            reports.append(replace(report, spans=()))
    return GroupResult(
        plan, tuple(joined(reports)), planning, tuple(log.dispatch.values()), log.truncated, log.dropped, log.shards
    )


def _directives(
    policy: Policy, plan: DeploymentPlan, world: World, *, steps: int, writer: Writer, log: _Log, timings: TextIO
) -> Iterator[DeploymentPlan | StepPlan]:
    """The plan, then a batch's step plans: each timed, checked and written before it is handed out.

    A backend may plan ahead in another thread, and one that resumes reports steps before they are planned again.
    """
    writer.append(plan)
    yield plan
    planned = policy.steps(_drawn(world.workload, steps, log), plan, world.cost)
    while True:
        started, log.drawing = time.perf_counter(), 0.0
        step = next(planned, None)
        if step is None:
            log.owed.settle()
            return
        seconds = time.perf_counter() - started - log.drawing
        log.dispatch[step.step] = log.dispatch.get(step.step, 0.0) + seconds
        _write_line(timings, {"step": step.step, "dispatch_seconds": seconds})
        log.owed.train(step)
        log.shards = max(log.shards, *(len(microbatch.group) for work in step.work for microbatch in work), 1)
        writer.append(step)
        yield step


def _drawn(workload: Workload, steps: int, log: _Log) -> Iterator[Batch]:
    """The batches, counted; the time it takes to draw them is no planning time."""
    batches = workload.batches(steps)
    names = [tenant.name for tenant in workload.tenants]
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        log.drawing += time.perf_counter() - started
        if batch is None:
            return
        log.owed.draw(batch)
        for counts, total in ((batch.truncated, log.truncated), (batch.dropped, log.dropped)):
            for name, count in zip(names, counts, strict=False):
                total[name] = total.get(name, 0) + count
        yield batch


def _write_line(file: TextIO, body: dict[str, Any]) -> None:
    file.write(json.dumps(body, allow_nan=False) + "\n")
