"""`lobra profile`: micro-batches timed by the executor on real ranks, one CSV with where and when."""

import csv
import io
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from costmodel.samples import DEPLOY, PLACE, WRITTEN
from executor.crew import RANKS
from executor.description import Execution
from executor.identity import MACHINE
from experiments.build import build_cluster, build_model
from experiments.profile_plan import Plan, Point, points_of, profile_plan, shapes
from experiments.progress import reporting
from experiments.rundir import SCHEMA, pretty, version
from experiments.schema import Profile
from experiments.schema_executor import Torch
from experiments.torch_backend import JOB, described, launched
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.json_file import read_object
from lobra.plan import StepPlan
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from lobra.trace import StepReport

NAME = "samples.csv"


def profile(config: Profile, folder: Path) -> int:
    """Do the verb: `samples.csv` and `summary.json` in the folder."""
    if not isinstance(config.backend, Torch):
        raise BadInput("backend: only the executor can be profiled; use backend=torch")
    grid, (model, cluster) = config.grid, (build_model(config.model), build_cluster(config.cluster))
    longest = max([1, *grid.lengths, *(length for pack in grid.packs for length in pack)])
    tenants = tuple(
        Tenant(f"tenant-{number}", batch_size=1, context_limit=longest, rank=config.tenants.rank, init_seed=number)
        for number in range(config.tenants.count)
    )
    padded = [(rows, length) for rows in grid.rows for length in grid.lengths]
    micro = shapes(padded, grid.packs, len(tenants), largest=grid.largest)
    points = points_of(micro, grid.tp, grid.recompute, cluster.gpus)
    plan = profile_plan(points, model, cluster, tenants, grid.repeats)
    execution = described(
        config.backend, config.model, cluster, data={"kind": "synthetic", "seed": 0}, total_updates=None
    )
    rows = timed(plan, execution, config.backend, folder, model=model, cluster=cluster)
    write_samples(folder / NAME, rows)
    body = {"schema": SCHEMA, "points": len(points), "rows": len(rows), "repeats": grid.repeats}
    write_atomically(folder / "summary.json", pretty(body | {"place": {key: rows[0][key] for key in PLACE}}))
    sys.stdout.write(f"{len(points)} micro-batches, each timed {grid.repeats} times\nwrote {folder / NAME}\n")
    sys.stdout.write(f"next: lobra fit {folder / NAME}\n")
    return 0


def timed(
    plan: Plan, execution: Execution, wanted: Torch, folder: Path, *, model: ModelSpec, cluster: ClusterSpec
) -> list[dict[str, Any]]:
    """Play the plan on ranks of its own: a row for every repeat of every point."""
    shutil.rmtree(folder / JOB, ignore_errors=True)  # a profile begins anew
    execution = replace(execution, counted=plan.counted, checkpoint_steps=0, checkpoint_seconds=1e9)
    backend = launched(wanted, execution)(folder)
    reports = []
    with reporting(1) as reporter, reporter.part("profile", len(plan.points)) as tick:
        for report in backend.play(iter(plan.directives)):
            reports.append(report)
            tick()
    place = place_of(folder, execution, model, cluster, repeats=max(plan.rounds))
    return rows_of(plan, reports) if not reports else [row | place for row in rows_of(plan, reports)]


def rows_of(plan: Plan, reports: Sequence[StepReport]) -> list[dict[str, Any]]:
    """What was measured: times of round 1 and later, bytes of round 0."""
    steps = [directive for directive in plan.directives if isinstance(directive, StepPlan)]
    saved = {plan.points[number]: round((reports[number].peak_gib or 0.0) * 2**30) for number in plan.counted}
    deployed = _deployed(plan, reports)
    return [
        _row(point, step, report, number, saved.get(replace(point, crowded=False), 0)) | {DEPLOY: deploy}
        for point, step, report, number, deploy in zip(plan.points, steps, reports, plan.rounds, deployed, strict=True)
        if number > 0
    ]


def _deployed(plan: Plan, reports: Sequence[StepReport]) -> list[float]:
    """Of every step, how long the deployment took that it runs under; 0 of the first, which the ranks start with."""
    found: list[float] = []
    for number, report in enumerate(reports):
        point, before = plan.points[number], plan.points[max(0, number - 1)]
        if (point.tp, point.recompute) != (before.tp, before.recompute) or number == 0:
            found.append(max((span.end - span.start for span in report.spans if span.kind == "deploy"), default=0.0))
        else:
            found.append(found[-1])
    return found


def _row(point: Point, step: StepPlan, report: StepReport, number: int, saved: int) -> dict[str, Any]:
    shape = step.work[0][0].shape
    replicas = sorted({span.replica for span in report.spans if span.kind == "forward"})
    copies = len(step.work[0])
    timed = [span for span in report.spans if span.microbatch == copies - 1]
    spent = {
        kind: [sum(s.end - s.start for s in timed if (s.replica, s.kind) == (who, kind)) for who in replicas]
        for kind in ("forward", "backward")
    }
    slowest = max(ahead + back for ahead, back in zip(spent["forward"], spent["backward"], strict=True))
    mean = {kind: sum(values) / len(values) for kind, values in spent.items()}
    return {
        "tp": point.tp,
        "recompute": point.recompute,
        "crowded": int(point.crowded),
        "rows": shape.rows,
        "width": shape.width,
        "sequences": sum(map(len, point.rows)),
        "tokens": shape.tokens,
        "longest": max(length for row in point.rows for length in row),
        "squares": shape.squares,
        "runs": shape.runs,
        "tenants": point.tenants,
        "repeat": number,
        "forward_seconds": mean["forward"],
        "backward_seconds": mean["backward"],
        "rest_seconds": max(0.0, report.seconds - copies * slowest - report.wait_seconds),
        "saved_bytes": saved,
    }


def place_of(
    folder: Path, execution: Execution, model: ModelSpec, cluster: ClusterSpec, *, repeats: int
) -> dict[str, Any]:
    """Where, when and by what it was measured."""
    machine = read_object(folder / JOB / RANKS / MACHINE)
    return {
        "model": model.name,
        "layers": model.layers,
        "layer_parameters": model.layer_parameters,
        "parameters": model.parameters,
        "dtype": dict(execution.settings)["dtype"],
        "hardware": machine["hardware"],
        "device": machine["device"],
        "cores": machine["cores"],
        "ranks": execution.ranks,
        "threads": execution.threads,
        "memory_gib": cluster.gpu.memory_gib,
        "torch": machine["torch"],
        "python": machine["python"],
        "lobra": version("lobra"),
        "date": datetime.fromtimestamp(time.time(), UTC).date().isoformat(),
        "repeats": repeats,
    }


def write_samples(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The table; numbers as short as they are exact."""
    file = io.StringIO()
    writer = csv.DictWriter(file, WRITTEN, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.7g}" if isinstance(value, float) else value for key, value in row.items()})
    write_atomically(path, file.getvalue())
