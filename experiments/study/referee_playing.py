"""The work of the referee's points: a comparison with its prices drawn, its micro-batches counted.

Beside what a comparison tells of each policy: by how much its cost changes in each draw of the prices (the same truth
for all policies), how many micro-batches a replica accumulates in a step, the most tokens that one of them holds, and
whether any lies beyond what was timed. These four are taken from the first steps alone.
"""

import shutil
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.guard import hulls
from experiments.build import build_world
from experiments.intervals import Played, price_factors
from experiments.job import Job
from experiments.study.playing import KEEP, compared
from lobra import stream
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel

DIRECTIVES = "directives.jsonl"


def played(job: Job, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a comparison with `draws`, `accumulated`, `chunk_tokens` and `extrapolated` of each policy.

    options: draws, how many; first, of how many steps.
    """
    summary = compared(job, folder, {**options, KEEP: True})
    cost, first = build_world(job.config).cost, int(options["first"])
    figures = {name: body for name, body in summary["policies"].items() if "failed" not in body}
    streams = {name: _first(folder / name, first) for name in figures}
    told = {
        name: Played(figures[name]["gpu_seconds"], figures[name]["step_seconds"], (directives,))
        for name, directives in streams.items()
    }
    factors = price_factors(told, cost, seed=job.config.seed, draws=int(options["draws"]))
    for name, body in figures.items():
        body |= {"draws": factors[name].tolist(), **counted(streams[name], cost)}
        shutil.rmtree(folder / name)
    return summary


def counted(directives: Iterable[DeploymentPlan | StepPlan], cost: CostModel) -> dict[str, Any]:
    """Micro-batches of a replica and step, the tokens of the largest, and whether one lies beyond what was timed."""
    known, plan = hulls(cost), None
    numbers, largest, beyond = [], 0, False
    for directive in directives:
        if isinstance(directive, DeploymentPlan):
            plan = directive
            continue
        assert plan is not None  # a stream begins with a plan
        for replica, work in zip(plan.replicas, directive.work, strict=True):
            numbers.append(len(work))
            shapes = [microbatch.shape for microbatch in work]
            largest = max([largest, *(shape.tokens for shape in shapes)])
            hull = known.get(replica.config.tp)
            beyond = beyond or (hull is not None and any(hull.excess(shape) > 1 for shape in shapes))
    return {"accumulated": float(np.mean(numbers)), "chunk_tokens": largest, "extrapolated": beyond}


def _first(folder: Path, steps: int) -> tuple[DeploymentPlan | StepPlan, ...]:
    """The plan and the first step plans of the only group."""
    return tuple(islice(stream.read(folder / "0" / DIRECTIVES), 1 + steps))
