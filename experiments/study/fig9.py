"""Figure 9, the case study on 7B: what every replica does in one step, and how even their work is over many.

Task-Fused, length-based dispatch and LobRA's balanced dispatch play the same batches on the published plans, the last
also on one with a deep pipeline. `finish` is when a replica has done its last micro-batch, as a share of the slowest
replica's: all at 1 is balance. `predicted` is the closed form by which dispatch decides, beside the simulator that
plays every stage.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.build import build_world
from experiments.compare import Result
from experiments.figures import KINDS
from experiments.job import Job
from experiments.playing import play
from experiments.study import style
from experiments.study.point import Options, Point, Results, Rows
from experiments.study.settings import JUDGED_ONCE, SMALL, given
from experiments.traces import reports_of
from lobra import stream
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.trace import StepReport
from sim.simulator import Simulator

STEPS, SHOWN = 20, 3
CROWDED = 60  # pieces of one kind on a lane, beyond which white edges would hide them
PLAN = "1,1x6;2,1x1;8,1x1"
SYSTEMS = {
    "task_fused": ("task_fused", "8,1x2"),
    "length_based": ("length_based", PLAN),
    "lobra": ("lobra", PLAN),
    "lobra_pipeline": ("lobra", "1,8x1;8,1x1"),  # where the closed form has something to leave out
}


def points(sweep: str) -> tuple[Point, ...]:
    """A point a system."""
    if sweep == "smoke":
        policies = {"lobra": given("lobra", "1,4x1;4,1x1", JUDGED_ONCE)}
        return (Point("lobra", SMALL, policies, case_study, {"shown": 1}),)
    setting = ("experiment=paper_7b", f"steps={STEPS}")
    return tuple(
        Point(name, setting, {policy: given(policy, plan)}, case_study, {"shown": SHOWN})
        for name, (policy, plan) in SYSTEMS.items()
    )


def case_study(job: Job, folder: Path, options: Options) -> dict[str, Any]:
    """Finish of every replica in every step, predicted step seconds, and the spans of one step."""
    world, (name, *_) = build_world(job.config), job.policies
    outcome = play(job, name, folder, world, lambda: None)
    if not isinstance(outcome, Result):
        raise BadInput(f"{name}: {outcome.reason}")
    played, plan = folder / name / "0", outcome.groups[0].plan
    reports = list(reports_of(played))
    closed = Simulator(world.cost, fidelity="closed", spans=False, check=False)
    predicted = [report.seconds for report in closed.play(stream.read(played / "directives.jsonl"))]
    told = {
        "replicas": [str(replica.config) for replica in plan.replicas],
        "stages": [replica.config.pp for replica in plan.replicas],
        "seconds": [report.seconds for report in reports],
        "predicted_seconds": predicted,
        "finish": [_finish(report, plan) for report in reports],
        "shown": options["shown"],
        "spans": _spans(reports[options["shown"]]),
        "plan": plan.summary(),
        "status": outcome.status,
    }
    for file in played.iterdir():
        file.unlink()
    return told


def _finish(report: StepReport, plan: DeploymentPlan) -> list[float]:
    """Seconds from the beginning of a step until each replica has done its last micro-batch; 0 where it has none."""
    start = min(span.start for span in report.spans)
    ends = [0.0] * len(plan.replicas)
    for span in report.spans:
        if span.kind in ("forward", "backward"):
            ends[span.replica] = max(ends[span.replica], span.end - start)
    return ends


def _spans(report: StepReport) -> list[list[Any]]:
    start = min(span.start for span in report.spans)
    return [[s.replica, s.stage, s.kind, s.start - start, s.end - start] for s in report.spans]


def table(results: Results) -> Rows:
    """Balance and prediction of every system."""
    rows: Rows = []
    for name, result in results.items():
        finish = np.array(result["finish"])
        share = finish / finish.max(axis=1, keepdims=True)
        ours, predicted = np.array(result["seconds"]), np.array(result["predicted_seconds"])
        rows.append(
            {
                "policy": name,
                "plan": result["plan"],
                "step_seconds": float(ours.mean()),
                "predicted_seconds": float(predicted.mean()),
                "prediction_error": round(float(np.abs(predicted / ours - 1).mean()), 12),
                "mean_finish": float(share.mean()),
                "earliest_finish": float(share.min(axis=1).mean()),
                "steps": len(ours),
                "basis": result["status"],
            }
        )
    return rows


def notes(results: Results) -> tuple[str, ...]:
    """Balance in words."""
    lines = [
        f"{row['policy']}: the first replica is done after {row['earliest_finish']:.0%} of the longest one's time, the "
        f"mean one after {row['mean_finish']:.0%}; closed form against simulator {row['prediction_error']:.1%}"
        for row in table(results)
    ]
    return (*lines, "predicted against simulated; `lobra validate` compares predictions with real ranks")


def figure(results: Results) -> Figure:
    """Left one step, right the finish of every replica over all steps, a row a system."""
    count = max(1, len(results))
    lanes = [sum(result["stages"]) for result in results.values()] or [1]
    ratios = {"height_ratios": [max(2, each) for each in lanes], "width_ratios": [3, 1]}
    height = 1.1 + 0.16 * sum(lanes) + 0.35 * count
    drawn, axes = style.canvas(style.PAGE, height, count, 2, squeeze=False, gridspec_kw=ratios)
    longest = max((end for result in results.values() for *_, end in result["spans"]), default=1.0)
    for (left, right), (name, result) in zip(axes, results.items(), strict=False):
        _timeline(left, result)
        left.set_title(f"{style.look_of(name).label}, {result['plan']}", fontsize=7.5, loc="left")
        left.set_xlim(0, longest)
        _finishes(right, result)
    if results:
        axes[-1][0].set_xlabel(f"seconds from the beginning of step {next(iter(results.values()))['shown']}")
        axes[-1][1].set_xlabel("finish, % of the slowest")
    style.legend(drawn, axes, 4)
    n = max((len(result["seconds"]) for result in results.values()), default=0)
    style.caption(drawn, f"7B, 16 A100-40GB, simulated; right: mean and range of n = {n} steps, a row a replica")
    return drawn


def _timeline(axes: Any, result: Any) -> None:
    places: dict[tuple[int, int], int] = {}
    for replica, stages in enumerate(result["stages"]):
        for stage in range(stages):
            places[replica, stage] = len(places)
    for kind, colour in KINDS.items():
        pieces: dict[int, list[tuple[float, float]]] = {}
        for replica, stage, what, start, end in result["spans"]:
            if what == kind and (replica, stage) in places:
                pieces.setdefault(places[replica, stage], []).append((start, end - start))
        for number, (place, bars) in enumerate(sorted(pieces.items())):
            label = {"label": kind} if number == 0 else {}
            edge = 0.15 if len(bars) < CROWDED else 0.0
            axes.broken_barh(bars, (place - 0.4, 0.8), color=colour, edgecolor="white", linewidth=edge, **label)
    lanes = [
        result["replicas"][replica] + (f" {stage + 1}/{stages}" if (stages := result["stages"][replica]) > 1 else "")
        for replica, stage in places
    ]
    axes.set_yticks(range(len(places)), lanes, fontsize=6)
    axes.invert_yaxis()


def _finishes(axes: Any, result: Any) -> None:
    finish = np.array(result["finish"])
    share = 100 * finish / finish.max(axis=1, keepdims=True)
    row = 0
    for replica, stages in enumerate(result["stages"]):
        place = row + (stages - 1) / 2
        values = share[:, replica]
        axes.barh(place, values.mean(), 0.7, color="#56B4E9", edgecolor=style.INK, linewidth=0.4)
        axes.plot([values.min(), values.max()], [place] * 2, color=style.INK, linewidth=0.9, marker="|", markersize=3)
        row += stages
    axes.set_ylim(row - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlim(0, 105)
