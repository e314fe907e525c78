"""Figure 8, the ablation on 7B: heterogeneous replicas, balanced dispatch, dynamic buckets, one after another.

`estimate` is the paper's own estimate: its cost form with its authors' coefficients, its max-token table, its plans.
`ours` lets every policy plan for itself on our cost model and plays it in the simulator. Beside the paper's steps
stand the two that it does not take: packing the baseline, and packing LobRA.
"""

from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.point import Point, Results, Rows
from experiments.study.published import error, published
from experiments.study.settings import EIGHTS, JUDGED_ONCE, SMALL, given
from experiments.study.tablewise import failed_lines

ESTIMATE, OURS = "estimate", "ours"
ABLATION = ("task_fused", "length_based", "lobra_fixed", "lobra")
PACKED = ("task_fused_packed", "lobra_packed")
PUBLISHED = {"lobra_fixed": "saved_7b_fixed_buckets", "lobra": "saved_7b"}
TITLES = {ESTIMATE: "the paper's cost form and plans", OURS: "own plans, simulated"}


def points(sweep: str) -> tuple[Point, ...]:
    """The two settings."""
    if sweep == "smoke":
        own = {name: given(name, "4,1x2" if name == "task_fused" else EIGHTS, JUDGED_ONCE) for name in ABLATION[::3]}
        return (
            Point("small_estimate", (*SMALL, "cost=paper", "backend=closed"), own),
            Point("small_ours", SMALL, own | {"lobra_packed": given("lobra_packed", EIGHTS, JUDGED_ONCE)}),
        )
    return (
        Point(ESTIMATE, ("experiment=paper_7b_estimate", "steps=100"), ABLATION),
        Point(OURS, ("experiment=paper_7b",), (*ABLATION, *PACKED)),
    )


def table(results: Results) -> Rows:
    """GPU seconds and what they save, beside what was published."""
    rows: Rows = []
    for setting, summary in results.items():
        for name, body in summary["policies"].items():
            if "failed" in body:
                continue
            theirs = published("headline").get(PUBLISHED.get(name, "")) if setting in TITLES else None
            low, high = body["reduction_interval"] or (None, None)
            rows.append(
                {
                    "setting": setting,
                    "policy": name,
                    "gpu_seconds": body["gpu_seconds"],
                    "saved": body["reduction"],
                    "saved_low": low,
                    "saved_high": high,
                    "published": theirs,
                    "error_points": None if theirs is None else 100 * (body["reduction"] - theirs),
                    "error": None if theirs is None else error(body["reduction"], theirs),
                    "steps": len(body["gpu_seconds_per_step"]),
                    "plan": "; ".join(dict.fromkeys(body["plan_summaries"])),
                    "basis": body["status"],
                }
            )
    return rows


def notes(results: Results) -> tuple[str, ...]:
    """What the estimate is."""
    return (
        *failed_lines(results),
        "estimate: re-derived with the authors' coefficients, plans and max-token table; never run on their hardware",
        "intervals: 90 %, bootstrap over batches, paired with task_fused; they hold no doubt about prices or lengths",
    )


def figure(results: Results) -> Figure:
    """GPU seconds relative to Task-Fused, a panel a setting; the published ones as diamonds."""
    drawn, axes = style.canvas(style.PAGE, 2.6, 1, max(1, len(results)), squeeze=False, sharey=True)
    rows = table(results)
    for panel, setting in zip(axes[0], results, strict=True):
        here = [row for row in rows if row["setting"] == setting]
        for place, row in enumerate(here):
            value = 100 * (1 - row["saved"])
            style.bar(panel, place, value, style.look_of(row["policy"]), label=True)
            if row["saved_low"] is not None:
                style.interval(panel, place, (100 * (1 - row["saved_high"]), 100 * (1 - row["saved_low"])))
            style.write(panel, place, 2, f"{value:.1f}", bbox=style.WHITE)
            if row["published"] is not None:
                style.diamond(panel, place, 100 * (1 - row["published"]), label=True)
        panel.set_xticks([])
        panel.set_title(TITLES.get(setting, setting))
    axes[0][0].set_ylabel("GPU seconds, % of Task-Fused")
    style.legend(drawn, axes[0], 4)
    n = " and ".join(f"{row['steps']} ({row['setting']})" for row in rows if row["policy"] == "task_fused")
    style.caption(drawn, f"7B, 16 A100-40GB, six tasks; n = {n} batches; lines: 90 % intervals, paired by batch")
    return drawn
