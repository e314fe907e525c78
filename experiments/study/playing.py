"""The usual work of a point: play its policies on the same batches, and keep the wall clock apart."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.build import build_world
from experiments.compare import Failure, Result, summarise
from experiments.failures import INFEASIBLE
from experiments.job import Job
from experiments.playing import play
from lobra.errors import BadInput, Infeasible

WALL = ("planning_seconds", "dispatch_seconds")  # what a comparison measures of the machine that plays it
KEEP = "keep_traces"


def compared(job: Job, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a comparison; a policy that fails is in it with its reason, all failing fails the point.

    Traces are removed unless the options hold keep_traces.
    """
    world = build_world(job.config)
    outcomes = {}
    for name in job.policies:
        outcomes[name] = play(job, name, folder, world, lambda: None)
        if not options.get(KEEP):
            shutil.rmtree(folder / name, ignore_errors=True)
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
    if len(failures) == len(outcomes):
        text = "; ".join(dict.fromkeys(f"{name}: {failure.reason}" for name, failure in failures.items()))
        raise (Infeasible if any(f.exit_code == INFEASIBLE for f in failures.values()) else BadInput)(text)
    summary = summarise(outcomes, job.config.seed)
    played = [name for name, outcome in outcomes.items() if isinstance(outcome, Result)]
    return summary | {"wall": {name: {key: summary["policies"][name].pop(key) for key in WALL} for name in played}}
