"""Figure 10, scalability on 70B: GPU seconds over the number of GPUs, and over the number of tasks.

As in the paper's runs dynamic bucketing is off and both systems pad to the seven fixed widths. `paper`: the published
plans; `own`: every system's own. All of it is roofline: nothing was profiled on A800-80GB. Values are relative, as
printed in the paper: to Task-Fused on 16 GPUs, and to Task-Fused with 4 tasks.
"""

from collections.abc import Mapping
from itertools import pairwise

from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.point import Point, Results, Rows
from experiments.study.published import error, published
from experiments.study.settings import SMALL, Overrides, given, quick
from experiments.study.tablewise import failed_lines

STEPS = 10
FUSED, LOBRA = "task_fused", "lobra"
OWN, PAPER = "own", "paper"
SHAPE = ("experiment=paper_70b", "workload=lobra4", f"steps={STEPS}")
LABELS = {"gpus": "GPUs (4 tasks)", "tasks": "tasks (64 GPUs)"}


def points(sweep: str) -> tuple[Point, ...]:
    """Every published place on both axes; 4 tasks on 64 GPUs lie on both and are played once."""
    if sweep == "smoke":
        return (Point("gpus_8_own", SMALL, quick((FUSED, LOBRA))),)
    places = [(gpus, 4) for gpus, *_ in published("figure10_gpus")]
    places += [(64, tasks) for tasks, *_ in published("figure10_tasks") if tasks != 4]
    return tuple(
        Point(
            _name(gpus, tasks, plans), (*SHAPE, f"cluster.nodes={gpus // 8}", f"workload.copies={tasks // 4}"), chosen
        )
        for gpus, tasks in places
        for plans, chosen in ((OWN, _own()), (PAPER, _paper(gpus, tasks)))
    )


def _name(gpus: int, tasks: int, plans: str) -> str:
    return f"tasks_{tasks}_{plans}" if tasks != 4 else f"gpus_{gpus}_{plans}"


def _own() -> Mapping[str, Overrides]:
    return {FUSED: (f"policy={FUSED}",), LOBRA: (f"policy={LOBRA}", "policy/batching=padded")}


def _paper(gpus: int, tasks: int) -> Mapping[str, Overrides]:
    plan = published("scalability_plans")[gpus] if tasks == 4 else published("scalability_plan_8_to_16_tasks")
    return {
        FUSED: given(FUSED, f"16,1x{gpus // 16}"),
        LOBRA: given(LOBRA, plan, "policy/batching=padded"),
    }


def table(results: Results) -> Rows:
    """Relative GPU seconds of both systems at every place, beside the published ones."""
    rows: Rows = []
    for plans in (OWN, PAPER):
        for axis in LABELS:
            printed = {place: theirs for place, *theirs in published(f"figure10_{axis}")}
            places = _places(results, axis, plans)
            base = _seconds(results, axis, min(places), plans, FUSED) if places else None
            for place in places:
                for system, value in zip((FUSED, LOBRA), printed.get(place, (None, None)), strict=True):
                    body = _body(results, axis, place, plans, system)
                    if base is None or body is None:
                        continue
                    ours = body["gpu_seconds"] / base
                    low, high = body["interval"] or (None, None)
                    rows.append(
                        {
                            "plans": plans,
                            "axis": axis,
                            "place": place,
                            "policy": system,
                            "gpu_seconds": body["gpu_seconds"],
                            "relative": ours,
                            "low": None if low is None else low / base,
                            "high": None if high is None else high / base,
                            "published": value,
                            "error": None if value is None else error(ours, value),
                            "steps": len(body["gpu_seconds_per_step"]),
                            "plan": "; ".join(body["plan_summaries"]),
                            "basis": body["status"],
                        }
                    )
    return rows


def _places(results: Results, axis: str, plans: str) -> list[int]:
    """Numbers of GPUs or tasks that were played."""
    parts = [name.split("_") for name in results]
    found = {int(place) for what, place, own in parts if what == axis and own == plans}
    return sorted(found | {4} if axis == "tasks" and found else found)


def _seconds(results: Results, axis: str, place: int, plans: str, system: str) -> float | None:
    body = _body(results, axis, place, plans, system)
    return None if body is None else float(body["gpu_seconds"])


def _body(results: Results, axis: str, place: int, plans: str, system: str) -> Results | None:
    name = _name(place, 4, plans) if axis == "gpus" else _name(64, place, plans)
    body: Results = results.get(name, {}).get("policies", {}).get(system, {})
    return body if "gpu_seconds" in body else None


def notes(results: Results) -> tuple[str, ...]:
    """Whether order and direction of every published point are those found here."""
    rows, lines = [row for row in table(results) if row["published"] is not None], []
    for plans in (OWN, PAPER):
        for axis in LABELS:
            here = [row for row in rows if (row["plans"], row["axis"]) == (plans, axis)]
            if here:
                lines += [f"figure 10, {axis}, {plans} plans: {verdict}" for verdict in _trends(here)]
    return (
        *lines,
        *failed_lines(results),
        "70B is roofline: nothing was measured on this hardware; seven fixed widths, as in the paper's runs",
    )


def _trends(rows: Rows) -> list[str]:
    """Order: which system is cheaper at each place. Direction: up or down from place to place."""
    ours = {(row["policy"], row["place"]): row["relative"] for row in rows}
    theirs = {(row["policy"], row["place"]): row["published"] for row in rows}
    places = sorted({row["place"] for row in rows})
    order = [p for p in places if {(FUSED, p), (LOBRA, p)} <= set(ours)]
    same = [p for p in order if _sign(ours[LOBRA, p], ours[FUSED, p]) == _sign(theirs[LOBRA, p], theirs[FUSED, p])]
    steps = [
        (system, a, b)
        for system in (FUSED, LOBRA)
        for a, b in pairwise(places)
        if {(system, a), (system, b)} <= set(ours)
    ]
    alike = [
        (system, a, b)
        for system, a, b in steps
        if _sign(ours[system, b], ours[system, a]) == _sign(theirs[system, b], theirs[system, a])
    ]
    broken = [f"{system} {a} to {b}" for system, a, b in steps if (system, a, b) not in alike]
    worst = max((abs(row["error"]) for row in rows), default=0.0)
    return [
        f"order holds at {len(same)} of {len(order)} places; direction in {len(alike)} of {len(steps)} steps"
        + (f" (not {', '.join(broken)})" if broken else "")
        + f"; largest error {worst:.0%}"
    ]


def _sign(one: float, other: float) -> int:
    """-1, 0 or 1; within half a printed digit two values are equal."""
    return 0 if abs(one - other) < 0.005 else (1 if one > other else -1)


def figure(results: Results) -> Figure:
    """Both axes: ours on published plans and on own ones, the published points as diamonds."""
    rows = table(results)
    drawn, axes = style.canvas(style.PAGE, 2.9, 1, 2, squeeze=False)
    for panel, (axis, label) in zip(axes[0], LABELS.items(), strict=True):
        for system in (FUSED, LOBRA):
            look = style.look_of(system)
            for plans, line in ((PAPER, "-"), (OWN, "--")):
                here = [r for r in rows if (r["axis"], r["policy"], r["plans"]) == (axis, system, plans)]
                style.curve(
                    panel,
                    [row["place"] for row in here],
                    [row["relative"] for row in here],
                    look,
                    line=line,
                    label=f"{look.label}, {'published' if plans == PAPER else 'own'} plans",
                    ends=[(row["low"], row["high"]) for row in here],
                )
            for place, *theirs in published(f"figure10_{axis}"):
                style.diamond(panel, place, theirs[int(system == LOBRA)], label=True)
        if axis == "gpus":
            panel.set_xscale("log", base=2)
        panel.set_xticks([place for place, *_ in published(f"figure10_{axis}")])
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.minorticks_off()
        panel.set_xlabel(label)
        panel.set_ylim(0)
    axes[0][0].set_ylabel("GPU seconds per step, relative\nto Task-Fused on 16 GPUs")
    axes[0][1].set_ylabel("relative to Task-Fused\nwith 4 tasks")
    style.legend(drawn, axes, 3)
    n = max((row["steps"] for row in rows), default=0)
    style.caption(drawn, f"70B, A800-80GB, roofline; n = {n} batches; bars: 90 % interval of the mean")
    return drawn
