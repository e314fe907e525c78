"""The quality of two stages: replicas chosen once, sequences dealt step by step, against choosing both for every step.

The paper says that its two stages are within 15 % of the joint optimum in estimated time. Here every step of 100 is set
beside a certified bound of the joint problem: no replicas and no dispatch of this very batch take less, by the prices
of the planner. The gap to a bound is at least the gap to the optimum, so a small one proves the claim and a large one
does not refute it; plans looked for in the first steps alone tell what could really be had there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.point import Point, Results, Rows
from experiments.study.published import published
from experiments.study.quality_playing import judged
from experiments.study.settings import EIGHTS, JUDGED_ONCE, SMALL, given
from experiments.study.tablewise import failed_lines
from lobra.batch import Array

OWN, PUBLISHED = "own", "published"
POLICIES = {OWN: ("policy=lobra",), PUBLISHED: ("policy=lobra", "policy/deployment=paper")}
TRIED = {"tried": 5, "pool": 4}
TITLES = {
    "estimate": "7B, the paper's cost form",
    "7b": "7B, our prices",
    "70b": "70B, our prices",
}


def points(sweep: str) -> tuple[Point, ...]:
    """The paper's estimate, and both settings by our prices, each with its own plan and the published one."""
    if sweep == "smoke":
        plans = {OWN: ("policy=lobra", *FEW), "given": given("lobra", EIGHTS, JUDGED_ONCE)}
        return (Point("small", (*SMALL, "cost=roofline", "steps=4"), plans, judged, {"tried": 1, "pool": 1}),)
    return (
        Point("estimate", ("experiment=paper_7b_estimate", "plans=own", "steps=100"), POLICIES, judged, TRIED),
        Point("7b", ("experiment=paper_7b", "steps=100"), POLICIES, judged, TRIED),
        Point("70b", ("experiment=paper_70b", "steps=100"), POLICIES, judged, TRIED),
    )


FEW = (JUDGED_ONCE, "policy.deployment.pool=1", "policy.deployment.budgets=1")


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """How far the steps of one plan are from their joint bounds."""

    setting: str
    plan_of: str
    gaps: Array  # float64 [steps], relative
    found: Array  # float64 [tried], what a plan for the step alone saves: step over best found - 1
    body: Mapping[str, Any]

    def within(self, limit: float) -> float:
        """Share of steps whose gap is at most the limit."""
        return float(np.mean(self.gaps <= limit))


def table(results: Results) -> Rows:
    """Quantiles of the gap, the share of steps within the published 15 %, and what was really found in some steps."""
    limit = published("headline")["two_stage_within"]
    return [
        {
            "setting": each.setting,
            "plan of": each.plan_of,
            "steps": len(each.gaps),
            "gap_mean": float(each.gaps.mean()),
            "gap_median": float(np.median(each.gaps)),
            "gap_95": float(np.quantile(each.gaps, 0.95)),
            "gap_largest": float(each.gaps.max()),
            "within_15": each.within(limit),
            "tried": len(each.found),
            "found_mean": float(each.found.mean()) if len(each.found) else None,
            "found_largest": float(each.found.max()) if len(each.found) else None,
            "plan": each.body["plan"],
            "basis": each.body["status"],
        }
        for each in measured(results)
    ]


def measured(results: Results) -> Iterator[Gaps]:
    """All plans that could be played."""
    for setting, summary in results.items():
        for plan_of, body in summary["policies"].items():
            if "failed" not in body:
                seconds = np.array(body["seconds"])
                bounds, best = (np.array(summary[key]) for key in ("bound_seconds", "best_seconds"))
                yield Gaps(setting, plan_of, seconds / bounds - 1, seconds[: len(best)] / best - 1, body)


def notes(results: Results) -> tuple[str, ...]:
    """Whether the claim is proven for each plan, and how the gap is to be read."""
    limit = published("headline")["two_stage_within"]
    lines = []
    for each in measured(results):
        share = each.within(limit)
        word = "proven" if share == 1 else "not proven"
        found = f"; a plan for the step alone saves {each.found.mean():.1%} on average" if len(each.found) else ""
        lines.append(
            f"{each.setting}, {each.plan_of} plan: within {limit:.0%} of the joint optimum in {share:.0%} of "
            f"{len(each.gaps)} steps ({word} for all); gap {each.gaps.mean():.1%} on average, {each.gaps.max():.1%} at "
            f"most{found}{f' in the first {len(each.found)}' if len(each.found) else ''}"
        )
    return (
        *lines,
        *failed_lines(results),
        "gap: the dispatched step over what no plan and no dispatch of its batch beats; it is at least the optimum's",
        "planner's prices on both sides (estimated time, as published), without synchronisation, with bubbles",
    )


def figure(results: Results) -> Figure:
    """The distribution of the gap, a panel a setting; the published 15 % as a line."""
    limit = 100 * published("headline")["two_stage_within"]
    drawn, axes = style.canvas(style.PAGE, 2.5, 1, max(1, len(results)), squeeze=False, sharey=True)
    told = list(measured(results))
    right = max([limit * 1.1, *(100 * float(each.gaps.max()) * 1.05 for each in told)])
    for panel, setting in zip(axes[0], results, strict=False):
        for number, each in enumerate(gaps for gaps in told if gaps.setting == setting):
            ordered = np.sort(100 * each.gaps)
            panel.step(
                [0.0, *ordered, right],
                [0.0, *(np.arange(1, len(ordered) + 1) / len(ordered)), 1.0],
                ("-", "--", ":")[number % 3],
                where="post",
                color=style.ORDER[number],
                linewidth=1.6,
                label=f"{each.plan_of} plan",
            )
        panel.axvline(limit, color=style.INK, linewidth=0.8, linestyle=":", label=f"published: within {limit:.0f} %")
        panel.set_xlim(0, right)
        panel.set_ylim(0, 1.03)
        panel.set_title(TITLES.get(setting, setting))
        panel.set_xlabel("above the joint bound, %")
    axes[0][0].set_ylabel("share of steps")
    if told:
        style.legend(drawn, axes, 3)
    n = ", ".join(f"{len(each.gaps)} ({each.setting})" for each in told if each.plan_of == told[0].plan_of)
    style.caption(
        drawn, f"n = {n or 0} steps; bounds hold for every plan and dispatch of a step's batch in its buckets"
    )
    return drawn
