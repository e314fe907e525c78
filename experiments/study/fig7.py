"""Figure 7, end to end: GPU seconds a step of all systems in the paper's three settings, and of the packed ones.

`own`: every system plans for itself on our cost model. `paper`: the plans that were published, on the same model. 7B
rests on the authors' layer times, 32B and 70B on data sheets (roofline). Of the paper's bars the savings against
Task-Fused of 7B and 70B are known; that of 32B is not.
"""

from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.point import Point, Results, Rows
from experiments.study.published import error, published
from experiments.study.settings import SMALL, quick
from experiments.study.tablewise import failed_lines

SYSTEMS = ("task_fused", "task_sequential", "lobra_sequential", "lobra")
PACKED = ("task_fused_packed_balanced", "lobra_packed")
ON_PAPER_PLANS = {  # of LobRA-Sequential no plans were published
    "task_fused": ("policy=task_fused", "policy/deployment=paper"),
    # these plans hold what a task's data holds, not always all that its context limit allows
    "task_sequential": ("policy=task_sequential", "policy/deployment=paper", "policy.deployment.longest=histogram"),
    "lobra": ("policy=lobra", "policy/deployment=paper"),
}
SETTINGS = {"7b": "7B, 16 A100-40GB", "32b": "32B, 64 A800-80GB", "70b": "70B, 64 A800-80GB"}
PUBLISHED = {"7b": "saved_7b", "70b": "saved_70b"}
OWN, PAPER = "own", "paper"
STEPS = 10


def points(sweep: str) -> tuple[Point, ...]:
    """Each setting with own plans and with the published ones."""
    if sweep == "smoke":
        return (Point("small_own", SMALL, quick(("task_fused", "task_sequential", "lobra_packed"))),)
    own = [
        Point(f"{size}_{OWN}", (f"experiment=paper_{size}", f"steps={STEPS}"), (*SYSTEMS, *PACKED)) for size in SETTINGS
    ]
    paper = [
        Point(f"{size}_{PAPER}", (f"experiment=paper_{size}", f"steps={STEPS}"), ON_PAPER_PLANS) for size in SETTINGS
    ]
    return (*reversed(own), *paper)  # the longest first


def table(results: Results) -> Rows:
    """GPU seconds of every system, savings with intervals, and the published saving where it is known."""
    rows: Rows = []
    for name in sorted(results, key=_place):
        size, _, plans = name.partition("_")
        for system, body in results[name]["policies"].items():
            if "failed" in body:
                continue
            key = PUBLISHED.get(size) if system == "lobra" else None
            theirs = published("headline")[key] if key else None
            ours = body["reduction"]
            saved, spread = ours if ours is not None else 0.0, body["reduction_interval"] or (None, None)
            rows.append(
                {
                    "setting": size,
                    "plans": plans,
                    "policy": system,
                    "gpu_seconds": body["gpu_seconds"],
                    "low": (body["interval"] or (None, None))[0],
                    "high": (body["interval"] or (None, None))[1],
                    "saved": saved,
                    "saved_low": spread[0],
                    "saved_high": spread[1],
                    "published": theirs,
                    "error_points": None if theirs is None else 100 * (saved - theirs),
                    "error": None if theirs is None else error(saved, theirs),
                    "steps": len(body["gpu_seconds_per_step"]),
                    "plan": body["plan_summaries"][0] if len(body["plan_summaries"]) == 1 else "one a tenant",
                    "basis": body["status"],
                }
            )
    return rows


def _place(name: str) -> tuple[int, int]:
    size, _, plans = name.partition("_")
    return (list(SETTINGS).index(size) if size in SETTINGS else -1, int(plans == PAPER))


def notes(results: Results) -> tuple[str, ...]:
    """The order of the settings, and what the numbers rest on."""
    saved = {
        (row["setting"], row["plans"]): row["saved"]
        for row in table(results)
        if row["policy"] == "lobra" and row["setting"] in SETTINGS
    }
    lines = [
        f"LobRA against Task-Fused, {SETTINGS[size]}, {plans} plans: {share:.1%} saved; "
        + (
            f"published {published('headline')[PUBLISHED[size]]:.2%}"
            if size in PUBLISHED
            else "published value not known"
        )
        for (size, plans), share in saved.items()
    ]
    for plans in (OWN, PAPER):
        if {("7b", plans), ("70b", plans)} <= set(saved):
            more = saved["70b", plans] > saved["7b", plans]
            lines.append(f"trend, {plans} plans: 70B saves {'more' if more else 'less'} than 7B (published: more)")
    return (
        *lines,
        *failed_lines(results),
        "7B rests on the authors' layer times; 32B and 70B are roofline: nothing was measured on that hardware",
    )


def figure(results: Results) -> Figure:
    """A panel a setting: GPU seconds of each system on its own plans; diamonds: LobRA where the paper has it."""
    rows = [row for row in table(results) if row["plans"] == OWN]
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    drawn, axes = style.canvas(style.PAGE, 2.9, 1, max(1, len(settings)), squeeze=False)
    for panel, setting in zip(axes[0], settings, strict=False):
        here = [row for row in rows if row["setting"] == setting]
        fused = next((row["gpu_seconds"] for row in here if row["policy"] == "task_fused"), None)
        for place, row in enumerate(here):
            style.bar(panel, place, row["gpu_seconds"], style.look_of(row["policy"]), label=True)
            style.interval(panel, place, None if row["low"] is None else (row["low"], row["high"]))
            top = row["high"] or row["gpu_seconds"]
            if row["published"] is not None and fused is not None:
                theirs = fused * (1 - row["published"])
                style.diamond(panel, place, theirs, label=True)
                top = max(top, theirs + 0.02 * fused)
            if row["saved"]:
                style.write(panel, place, top, f"{-100 * row['saved']:+.0f} %")
        panel.set_xticks([])
        panel.set_title(f"{SETTINGS.get(setting, setting)}\n({here[0]['basis']})")
        panel.margins(y=0.12)
    axes[0][0].set_ylabel("GPU seconds per step")
    style.legend(drawn, axes, 4)
    n = max((row["steps"] for row in rows), default=0)
    style.caption(
        drawn,
        f"n = {n} batches, the same for all systems; lines: 90 % interval of the mean; numbers: against Task-Fused; "
        "every system on its own plan",
    )
    return drawn
