"""The referee's test: what remains of the headline where the baseline packs as well.

A published review of the paper asks for it: the three settings of its figure 7, 100 steps, Task-Fused with packing
(chunks by token budget, attention apart for each sequence) on the homogeneous configurations that the paper deploys,
dealt uniformly, with the same global batch accumulated before every update, beside Task-Fused padded, LobRA padded and
LobRA packed. LobRA is played twice: on the published plans, and on those of our planner.
"""

from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.fair_paired import ratio
from experiments.study.fair_verdicts import moot
from experiments.study.point import Point, Results, Rows
from experiments.study.referee_cases import PACKED, PADDED, PLANS, case_rows, cases, costs, usable
from experiments.study.referee_playing import played
from experiments.study.referee_scope import line, scope

BASELINES = {
    PADDED: ("policy=task_fused", "policy/deployment=paper"),
    PACKED: ("policy=task_fused_packed", "policy/deployment=paper"),
}
LOBRA = {
    f"{name}_{plans}": (f"policy={name}", *(("policy/deployment=paper",) if plans == "published" else ()))
    for plans in PLANS
    for name in ("lobra", "lobra_packed")
}
SETTINGS = {"7b": "7B, 16 GPUs", "32b": "32B, 64 GPUs", "70b": "70B, 64 GPUs"}
DRAWS, FIRST = 50, 10  # joint draws of the prices, on the first steps
SMALL = {PADDED: "8,1x1", PACKED: "8,1x1", "lobra_published": "1,1x4;2,1x2", "lobra_packed_published": "1,1x4;2,1x2"}
HEADLINE = (40, 55)  # per cent of the baseline's cost that 45 to 60 % saved leave


def points(sweep: str) -> tuple[Point, ...]:
    """One a setting; the quick one has plans of its own, as nobody published any."""
    if sweep == "smoke":
        policies: dict[str, tuple[str, ...]] = {
            name: (more[0], "policy.deployment.batches=2") for name, more in (BASELINES | LOBRA).items()
        }
        for name, plan in SMALL.items():
            policies[name] = (policies[name][0], "policy/deployment=given", f"policy.deployment.replicas='{plan}'")
        return (Point("small", ("experiment=smoke", "steps=3"), policies, played, {"draws": 4, "first": 2}),)
    options = {"draws": DRAWS, "first": FIRST}
    return tuple(
        Point(name, (f"experiment=paper_{name}", "steps=100"), BASELINES | LOBRA, played, options) for name in SETTINGS
    )


def table(results: Results) -> Rows:
    """Savings with 90 % intervals, and the falsifier where the baseline packs."""
    return [{"plans": case.plans} | row for case in cases(results) for row in case_rows(case)]


def notes(results: Results) -> tuple[str, ...]:
    """Whether packing is moot, the verdicts of each case, the scope of the headline, and what the intervals hold."""
    told = list(cases(results))
    lines = []
    if told:
        gains = [case.packing for case in told if case.plans == PLANS[0]]
        lines = [f"packing is moot (it gains 10 % or less in every setting): {moot(gains)}", *map(line, told)]
        lines.append(scope(told))
    return (
        *lines,
        "intervals: 90 %, batches (paired, Student's t) and joint draws of the prices together, as squares",
        "they hold no doubt about the lengths, which are fitted to published moments, nor about memory",
        "every policy trains on the same global batch before each update; a chunk holds at most the tokens that fit",
        "accumulated: micro-batches of a replica in a step, on average; times: against over policy",
    )


def figure(results: Results) -> Figure:
    """Cost relative to Task-Fused padded, a panel a setting."""
    drawn, axes = style.canvas(style.PAGE, 2.7, 1, max(1, len(results)), squeeze=False, sharey=True)
    numbers = set()
    for panel, (setting, summary) in zip(axes[0], results.items(), strict=False):
        bodies = usable(summary)
        names = [name for name in (*BASELINES, *LOBRA) if name in bodies and PADDED in bodies]
        for place, name in enumerate(names):
            of = ratio(costs(bodies[name]), costs(bodies[PADDED]))
            look = style.look_of(name.removesuffix("_published").removesuffix("_own"))
            style.bar(panel, place, 100 * of.value, look, label=not name.endswith("_own"))
            style.interval(panel, place, None if of.ends is None else [100 * end for end in of.ends])
            numbers.add(len(bodies[name]["gpu_seconds_per_step"]))
        panel.set_xticks(range(len(names)), ["own" if name.endswith("_own") else "pub" for name in names])
        panel.set_title(f"{SETTINGS.get(setting, setting)} ({bodies[PADDED]['status']})" if names else setting)
        panel.axhspan(*HEADLINE, color="#D9D9D9", alpha=0.5, zorder=0, linewidth=0)
    axes[0][0].set_ylabel("GPU seconds a step,\n% of Task-Fused padded")
    if numbers:
        style.legend(drawn, axes, 4)
    style.caption(
        drawn,
        f"n = {', '.join(map(str, sorted(numbers))) or 0} batches; lines: 90 %, batches and prices; grey: what the "
        "published 45 to 60 % leave; pub: published plans, own: our planner's",
    )
    return drawn
