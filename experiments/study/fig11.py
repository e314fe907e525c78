"""Figure 11, sensitivity of 7B to R, the number of buckets: share of padding and step time.

The plan is the published one throughout, so that R alone changes. `estimate` is the paper's own cost form, `ours` our
cost model and the simulator. Fewer buckets pad more; more buckets cut the batch into more micro-batches, each of which
pays a fixed time, which the choice of buckets (Eq. 4 of the paper) does not see.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.point import Point, Results, Rows
from experiments.study.published import error, published
from experiments.study.settings import EIGHTS, JUDGED_ONCE, SMALL, given
from experiments.study.tablewise import failed_lines

NUMBERS = (4, 6, 8, 10, 12, 16, 20, 24, 32, 48)
STEPS = 20
PLAN = "1,1x6;2,1x1;8,1x1"
TITLES = {"estimate": "the paper's cost form", "ours": "our cost model, simulated"}


def points(sweep: str) -> tuple[Point, ...]:
    """The same batches for every R."""
    if sweep == "smoke":
        policies = {f"R{r}": given("lobra", EIGHTS, f"policy.batching.number={r}", JUDGED_ONCE) for r in (4, 16)}
        return (Point("small_ours", SMALL, policies),)
    policies = {f"R{r}": given("lobra", PLAN, f"policy.batching.number={r}") for r in NUMBERS}
    estimate = ("experiment=paper_7b_estimate", "plans=own", f"steps={STEPS}")
    return (Point("estimate", estimate, policies), Point("ours", ("experiment=paper_7b", f"steps={STEPS}"), policies))


def table(results: Results) -> Rows:
    """Padding and step time of every R, the latter also relative to the smallest R."""
    rows: Rows = []
    for setting, summary in results.items():
        played = {int(name[1:]): body for name, body in summary["policies"].items() if "failed" not in body}
        base = played[min(played)]["step_seconds"] if played else 1.0
        for number, body in sorted(played.items()):
            paper = setting in TITLES
            padding = published("figure11")["padding"].get(number) if paper else None
            ratio = published("figure11")["step_ratio"].get(number) if paper else None
            low, high = body["interval"] or (None, None)
            whole = body["gpu_seconds"]
            rows.append(
                {
                    "setting": setting,
                    "buckets": number,
                    "padding": body["padding"],
                    "published_padding": padding,
                    "padding_error": None if padding is None else error(body["padding"], padding),
                    "step_seconds": body["step_seconds"],
                    "low": None if low is None else body["step_seconds"] * low / whole,
                    "high": None if high is None else body["step_seconds"] * high / whole,
                    "relative": body["step_seconds"] / base,
                    "published_relative": ratio,
                    "relative_error": None if ratio is None else error(body["step_seconds"] / base, ratio),
                    "steps": len(body["gpu_seconds_per_step"]),
                    "basis": body["status"],
                }
            )
    return rows


def notes(results: Results) -> tuple[str, ...]:
    """Whether padding falls, and from where on more buckets give less than 1 %."""
    lines = []
    rows = table(results)
    for setting in dict.fromkeys(row["setting"] for row in rows):
        here = [row for row in rows if row["setting"] == setting]
        falls = all(a["padding"] >= b["padding"] for a, b in pairwise(here))
        best = min(row["step_seconds"] for row in here)
        flat = next(row["buckets"] for row in here if row["step_seconds"] <= 1.01 * best)
        lines.append(
            f"{setting}: padding {'falls' if falls else 'does not fall'} monotonically (published: falls); step time "
            f"is within 1 % of its best from R = {flat} on (published: flat from about 12)"
        )
    return (
        *lines,
        *failed_lines(results),
        "published values of figure 11 were read off by eye; its definition of padding is not known",
    )


def figure(results: Results) -> Figure:
    """Padding and relative step time over R."""
    drawn, axes = style.canvas(style.PAGE, 2.5, 1, 2, squeeze=False)
    rows = table(results)
    for number, setting in enumerate(results):
        here = [row for row in rows if row["setting"] == setting]
        look = style.Look(TITLES.get(setting, setting), style.ORDER[number], marker=style.MARKERS[number])
        where = [row["buckets"] for row in here]
        style.curve(axes[0][0], where, [100 * row["padding"] for row in here], look, label=look.label)
        style.curve(
            axes[0][1],
            where,
            [row["step_seconds"] for row in here],
            look,
            label=look.label,
            ends=[(row["low"], row["high"]) for row in here],
        )
    shown = {row["buckets"]: row["published_padding"] for row in rows if row["published_padding"] is not None}
    for number, share in shown.items():
        style.diamond(axes[0][0], number, 100 * share, label=True)
    for panel, label in zip(axes[0], ("padding, % of tokens", "seconds per step"), strict=True):
        panel.set_xlabel("R, buckets at most")
        panel.set_ylabel(label)
        panel.set_ylim(0)
    style.legend(drawn, axes, 3)
    n = max((row["steps"] for row in rows), default=0)
    style.caption(drawn, f"7B, 16 A100-40GB, the published plan; n = {n} batches; bars: 90 % interval of the mean")
    return drawn
