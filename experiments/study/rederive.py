"""The headline derived again with the authors' coefficients, over every workload that fits what was published.

The paper publishes mean, skewness and kurtosis of its tasks' lengths, not their spread. A law that is stretched about
its mean keeps all three, so every factor at which no length falls below one token is admissible; the fitted laws lie
close to that end, so only factors below 1 are played. With them vary the shape of MeetingBank (a real one, or
log-normal) and what happens to sequences beyond the context limit (cut or left out). Anchors scale the authors' layer
times, a factor a tensor-parallel size, so that the paper's step times of Table 9 or its throughputs of Table 3 are met,
which differ from the profile by up to a sixth. Everything else is the paper's: its cost form, max-token table, plans,
buckets. A range comes out, and the published value lies inside or outside. Called re-derived, never reproduced: no
step was run on the hardware, and nothing here judges whether layer times were measured well.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure

from costmodel.scaled import Scaled
from experiments.build import build_policy, build_world
from experiments.compare import result_of, summarise
from experiments.job import Job
from experiments.study import style
from experiments.study.point import Options, Point, Results, Rows
from experiments.study.published import published
from experiments.study.published_steps import anchor_factors
from experiments.study.settings import EIGHTS, JUDGED_ONCE, SMALL, given
from experiments.walk import World, walk
from lobra.batch import Array
from lobra.errors import BadInput
from sim.simulator import Simulator
from workloads.lengths import LengthFamily
from workloads.published import paper_tasks
from workloads.sampled import SampledWorkload
from workloads.sources import Endless
from workloads.table import tabulate

STEPS = 20
SHAPES, OVERLONG, STRETCHES = ("alternative", "lognormal"), ("truncate", "drop"), (0.7, 1.0)
ANCHORS = ("profile", "table9", "table3")
SYSTEMS = ("task_fused", "lobra_fixed", "lobra")
CLAIMS = {"lobra_fixed": "saved_7b_fixed_buckets", "lobra": "saved_7b"}


@dataclass(frozen=True, slots=True)
class Stretched:
    """A law stretched about its mean: mean, skewness and kurtosis stay, the coefficient of variation changes."""

    law: LengthFamily
    mean: float
    factor: float

    @property
    def upper(self) -> float:
        """The largest value."""
        return self.mean + self.factor * (self.law.upper - self.mean)

    def cumulative(self, tokens: Array) -> Array:
        """Probability of a value at most `tokens`."""
        return self.law.cumulative(self.mean + (tokens - self.mean) / self.factor)


def points(sweep: str) -> tuple[Point, ...]:
    """Every workload with every anchor."""
    if sweep == "smoke":
        policies = {name: given(name, EIGHTS, JUDGED_ONCE) for name in SYSTEMS}
        setting = (*SMALL, "cost=paper", "backend=closed")
        return (Point("small_0.7_table9", setting, policies, rederived, {"stretch": 0.7, "anchor": "table9"}),)
    setting = ("experiment=paper_7b_estimate", f"steps={STEPS}")
    return tuple(
        Point(
            f"{shape}_{overlong}_{stretch}_{anchor}",
            (*setting, f"workload.meetingbank={shape}", f"workload.overlong={overlong}"),
            SYSTEMS,
            rederived,
            {"stretch": stretch, "anchor": anchor},
        )
        for shape, overlong, stretch, anchor in product(SHAPES, OVERLONG, STRETCHES, ANCHORS)
    )


def rederived(job: Job, folder: Path, options: Options) -> dict[str, Any]:
    """A comparison on a stretched workload and anchored prices, in closed form."""
    world = build_world(job.config)
    factors = anchor_factors(options["anchor"], world.cost)
    if factors:
        note = f"layer times scaled to {options['anchor']}"
        world = replace(world, cost=Scaled(world.cost, dict(factors.items()), None, 1.0, note))
    world = _stretched(world, job.config.workload.meetingbank, options["stretch"])
    outcomes = {}
    for name, config in job.policies.items():
        policy = build_policy(config, job.config.seed)
        simulator = Simulator(world.cost, fidelity="closed", spans=False)
        groups = walk(policy, world, partial(_same, simulator), steps=job.config.steps, folder=folder / name)
        outcomes[name] = result_of(groups, world.cost)
    summary = summarise(cast(Any, outcomes), job.config.seed)
    kept = ("gpu_seconds", "reduction", "reduction_interval", "padding", "gpu_seconds_per_step", "plan_summaries")
    return {"policies": {name: {key: body[key] for key in kept} for name, body in summary["policies"].items()}}


def _same(simulator: Simulator, _: Path) -> Simulator:
    return simulator


def _stretched(world: World, meetingbank: str, factor: float) -> World:
    """The world with every tenant's lengths stretched; BadInput where a length would fall below one token."""
    if factor == 1.0:
        return world
    tasks, workload = paper_tasks(meetingbank), cast(SampledWorkload, world.workload)
    sources = []
    for tenant in workload.tenants:
        task = tasks[tenant.name]
        moments = tabulate(task.lengths, tenant.name).moments()
        law = Stretched(task.lengths, moments.mean, factor)
        if float(law.cumulative(np.zeros(1))[0]) > 0:
            raise BadInput(f"stretch is {factor}; lengths of '{tenant.name}' would fall below one token")
        sources.append(Endless(tabulate(law, tenant.name)))
    return replace(world, workload=replace(workload, sources=tuple(sources)))


def table(results: Results) -> Rows:
    """Savings of both claims on every workload and anchor."""
    rows: Rows = []
    for name, result in results.items():
        for system, body in result["policies"].items():
            if system not in CLAIMS:
                continue
            low, high = body["reduction_interval"] or (None, None)
            rows.append(
                {
                    "workload": name.rpartition("_")[0],
                    "anchor": name.rpartition("_")[2],
                    "policy": system,
                    "saved": body["reduction"],
                    "saved_low": low,
                    "saved_high": high,
                    "published": published("headline")[CLAIMS[system]],
                    "gpu_seconds": body["gpu_seconds"],
                    "steps": len(body["gpu_seconds_per_step"]),
                }
            )
    return rows


def _paper(results: Results) -> Results:
    """The points of the paper's setting."""
    return {name: result for name, result in results.items() if not name.startswith("small")}


def ranges(results: Results) -> dict[str, tuple[float, float, float, float]]:
    """Of each claim: the ends of its savings over workloads and anchors, outer ones with sampling intervals."""
    found = {}
    for system in CLAIMS:
        rows = [row for row in table(_paper(results)) if row["policy"] == system]
        if rows:
            lows = [row["saved"] if row["saved_low"] is None else row["saved_low"] for row in rows]
            highs = [row["saved"] if row["saved_high"] is None else row["saved_high"] for row in rows]
            means = [row["saved"] for row in rows]
            found[system] = (min(lows), min(means), max(means), max(highs))
    return found


def notes(results: Results) -> tuple[str, ...]:
    """The ranges, and where the published values lie."""
    lines, count = [], len(_paper(results))
    for system, (lowest, low, high, highest) in ranges(results).items():
        theirs = published("headline")[CLAIMS[system]]
        where = "inside" if low <= theirs <= high else "outside"
        if where == "outside" and lowest <= theirs <= highest:
            where = "outside the means, inside their sampling intervals"
        what = "LobRA with fixed buckets" if system == "lobra_fixed" else "LobRA"
        lines.append(
            f"Task-Fused -> {what}, re-derived: {low:.1%} to {high:.1%} saved over {count} workloads and anchors "
            f"({lowest:.1%} to {highest:.1%} with sampling intervals); "
            f"published {theirs:.2%} lies {where}"
        )
    return (*lines, "re-derived with the authors' coefficients, max-token table and plans; reproduced on no hardware")


def figure(results: Results) -> Figure:
    """Every saving as a point, by workload and anchor; the published ones as lines."""
    rows = table(results)
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    drawn, axes = style.canvas(style.PAGE, 1.3 + 0.27 * max(1, len(workloads)), 1, 2, squeeze=False, sharey=True)
    titles = {"lobra_fixed": "LobRA, fixed buckets", "lobra": "LobRA, dynamic buckets"}
    for panel, (system, title) in zip(axes[0], titles.items(), strict=True):
        for number, anchor in enumerate(ANCHORS):
            here = [row for row in rows if row["policy"] == system and row["anchor"] == anchor]
            places = [workloads.index(row["workload"]) + 0.22 * (number - 1) for row in here]
            for place, row in zip(places, here, strict=True):
                if row["saved_low"] is not None:
                    panel.plot(
                        [100 * row["saved_low"], 100 * row["saved_high"]], [place] * 2, color=style.INK, linewidth=0.9
                    )
            panel.plot(
                [100 * row["saved"] for row in here],
                places,
                style.MARKERS[number],
                color=style.ORDER[number],
                markeredgecolor=style.INK,
                markeredgewidth=0.4,
                markersize=4.5,
                linestyle="none",
                label=f"layer times of the {anchor}" if anchor == "profile" else f"scaled to Table {anchor[-1]}",
            )
        panel.axvline(
            100 * published("headline")[CLAIMS[system]],
            color="#D55E00",
            linestyle="--",
            linewidth=1.2,
            label="published",
        )
        panel.set_title(title)
        panel.set_xlabel("GPU seconds saved against Task-Fused, %")
    axes[0][0].set_yticks(range(len(workloads)), [_label(name) for name in workloads])
    axes[0][0].invert_yaxis()
    style.legend(drawn, axes, 4)
    n = max((row["steps"] for row in rows), default=0)
    style.caption(drawn, f"7B, re-derived; n = {n} batches a workload; lines: 90 % intervals, paired by batch")
    return drawn


def _label(workload: str) -> str:
    shape, _, rest = workload.partition("_")
    overlong, _, stretch = rest.partition("_")
    shown = {"alternative": "real shape", "lognormal": "log-normal"}.get(shape, shape)
    return f"{shown}, {overlong}, spread x{stretch}" if stretch else workload
