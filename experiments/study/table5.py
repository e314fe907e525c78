"""Table 5, planning seconds on 70B with four tasks, over the number of GPUs.

Beside the authors' three planners, on their server, stands ours on this machine: all kinds that the cost model prices,
four planning batches, one solver thread. Times are what the clock said and are kept apart from the numbers of a study;
plans, bounds and what the published plan would take on the same batches are numbers. Roofline throughout.
"""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.build import build_policy, build_world
from experiments.compare import certificate_row
from experiments.job import Job
from experiments.study import style
from experiments.study.point import Options, Point, Results, Rows
from experiments.study.published import published
from experiments.study.settings import EIGHTS, JUDGED_ONCE, SMALL, given, quick

LOBRA, THEIRS = "lobra", "published"
METHODS = ("minlp", "minlp_with_proposal", "pruning")
LIMIT = 3600.0  # seconds after which the authors stopped a planner


def points(sweep: str) -> tuple[Point, ...]:
    """A point a cluster."""
    if sweep == "smoke":
        return (
            Point("gpus_8", SMALL, {LOBRA: quick((LOBRA,))[LOBRA], THEIRS: given(LOBRA, EIGHTS, JUDGED_ONCE)}, planned),
        )
    plans = published("scalability_plans")
    return tuple(
        Point(
            f"gpus_{gpus}",
            ("experiment=paper_70b", "workload=lobra4", f"cluster.nodes={gpus // 8}"),
            {
                LOBRA: (f"policy={LOBRA}", "policy/batching=padded"),
                THEIRS: given(LOBRA, plans[gpus], "policy/batching=padded"),
            },
            planned,
        )
        for gpus, *_ in published("table5")
    )


def planned(job: Job, folder: Path, options: Options) -> dict[str, Any]:
    """Our plan with its certificate, and the published plan judged on the same planning batches."""
    world, told, wall = build_world(job.config), {}, {}
    for name, config in job.policies.items():
        policy = build_policy(config, job.config.seed)
        started, cpu = time.perf_counter(), time.process_time()
        plan = policy.deployment.plan(world.workload, world.model, world.cluster, world.cost)
        wall[name] = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
        certificate = certificate_row(plan) or {}
        told[name] = {
            "plan": plan.summary(),
            **{key: certificate.get(key) for key in ("expected_seconds", "gap", "kinds")},
        }
    return {"policies": told, "wall": {"planning": wall}}


def table(results: Results) -> Rows:
    """Planning seconds of the authors and ours, and how the plans compare."""
    theirs = {gpus: dict(zip(METHODS, seconds, strict=True)) for gpus, *seconds in published("table5")}
    rows: Rows = []
    for name, result in results.items():
        gpus, ours = int(name.partition("_")[2]), result["policies"][LOBRA]
        planning = result.get("wall", {}).get("planning", {}).get(LOBRA, {})
        other = result["policies"][THEIRS]["expected_seconds"]
        rows.append(
            {
                "gpus": gpus,
                **{f"published_{method}": theirs.get(gpus, {}).get(method) for method in METHODS},
                "wall_seconds": planning.get("seconds"),
                "wall_cpu_seconds": planning.get("cpu_seconds"),
                "kinds": ours["kinds"],
                "gap": ours["gap"],
                "published_plan_over_ours": None if other is None else other / ours["expected_seconds"],
                "plan": ours["plan"],
                "published_plan": result["policies"][THEIRS]["plan"],
            }
        )
    return sorted(rows, key=lambda row: row["gpus"])


def notes(results: Results) -> tuple[str, ...]:
    """Order and direction of every published time, as far as ours has them."""
    rows = [
        row for row in table(results) if row["published_pruning"] is not None and row["wall_cpu_seconds"] is not None
    ]
    if not rows:
        return ("no planning seconds of a published cluster are known here",)
    faster = [row for row in rows if row["wall_cpu_seconds"] < row["published_pruning"]]
    longer = [(a, b) for a, b in pairwise(rows) if b["wall_cpu_seconds"] > a["wall_cpu_seconds"]]
    ratios = [row["published_pruning"] / row["wall_cpu_seconds"] for row in rows]
    ends = f"{min(ratios):.1f} to {max(ratios):.0f} times (other machines: read orders of magnitude)"
    return (
        f"order: ours is faster than the fastest published planner at {len(faster)} of {len(rows)} sizes, by {ends}",
        f"direction: published times grow with every size; ours grow in {len(longer)} of {len(rows) - 1} steps",
        "published_plan_over_ours: expected seconds of the published plan over those of ours on our roofline",
    )


def figure(results: Results) -> Figure:
    """Planning seconds over GPUs on logarithmic axes; what reached the limit lies on it."""
    drawn, axes = style.canvas(style.COLUMN, 2.7)
    names = {"minlp": "MINLP", "minlp_with_proposal": "MINLP + proposal", "pruning": "pruning"}
    for number, method in enumerate(METHODS):
        known = [(gpus, seconds[number]) for gpus, *seconds in published("table5")]
        look = style.Look(names[method], style.ORDER[number + 1], marker=style.MARKERS[number + 1])
        style.curve(
            axes,
            [gpus for gpus, each in known if each],
            [each for _, each in known if each],
            look,
            label=f"{look.label} (published)",
        )
        stopped = [gpus for gpus, each in known if each is None]
        axes.plot(
            stopped, [LIMIT] * len(stopped), look.marker, color="white", markeredgecolor=look.colour, markersize=4
        )
    rows = [row for row in table(results) if row["wall_cpu_seconds"] is not None]
    look = style.Look("ours, CPU seconds", style.ORDER[0])
    style.curve(
        axes,
        [row["gpus"] for row in rows],
        [row["wall_cpu_seconds"] for row in rows],
        look,
        label="ours (CPU seconds, here)",
    )
    axes.axhline(LIMIT, color=style.GREY, linewidth=0.7, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("GPUs")
    axes.set_ylabel("planning, seconds")
    style.legend(drawn, axes, 2)
    style.caption(drawn, "70B, four tasks; hollow: stopped at 3,600 s; one run a size")
    return drawn
