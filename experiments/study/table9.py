"""Table 9, step seconds of 64 equal sequences on 16 A100-40GB, 7B: 32 published steps beside ours.

The layer times are the authors' own, fitted; nothing is fitted to this table. `paper` is their cost form in closed
form, which is also what their planner believes; `floor` and `auto` are ours, played by the simulator with transfers and
synchronisation, `auto` with the output head on the last stage. NeMo's times stand beside as the paper prints them.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.build import build_world
from experiments.job import Job
from experiments.study import style
from experiments.study.point import Options, Point, Results, Rows
from experiments.study.published import error, published
from experiments.study.published_steps import table9
from experiments.study.tablewise import correlation, error_line, identity_figure

FORMS = {"paper": "closed", "floor": "pipeline", "auto": "pipeline"}
SMOKE = 6  # rows


def points(sweep: str) -> tuple[Point, ...]:
    """A point a cost form."""
    rows = {"rows": SMOKE} if sweep == "smoke" else {}
    return tuple(
        Point(form, ("experiment=paper_7b", f"cost={form}"), (), steps, {"fidelity": fidelity} | rows)
        for form, fidelity in FORMS.items()
    )


def steps(job: Job, folder: Path, options: Options) -> dict[str, Any]:
    """Every row of the table under one cost form."""
    cost = build_world(job.config).cost
    rows = published("table9")[: options.get("rows")]
    return {"rows": table9(cost, options["fidelity"], rows)}


def table(results: Results) -> Rows:
    """Published seconds, NeMo's, and ours by every form with their errors."""
    forms = [form for form in FORMS if form in results]
    rows: Rows = []
    for number in range(max((len(results[form]["rows"]) for form in forms), default=0)):
        first = results[forms[0]]["rows"][number]
        row = {key: first[key] for key in ("tp", "pp", "length", "published", "nemo")}
        for form in forms:
            ours = results[form]["rows"][number]["ours"]
            row |= {form: ours, f"{form}_error": error(ours, row["published"])}
        rows.append(row)
    return rows


def notes(results: Results) -> tuple[str, ...]:
    """Mean and largest error, and how well the order of the configurations is kept."""
    rows = table(results)
    lines = [error_line(form, rows, form) for form in FORMS if form in results]
    return (
        *lines,
        "nothing is fitted to this table; layer times are those of the authors' profile",
        correlation(rows, FORMS),
    )


def figure(results: Results) -> Figure:
    """Ours against published, a panel a form, NeMo's in grey."""
    return identity_figure(
        table(results), {form: _title(form) for form in FORMS if form in results}, "seconds per step", style.PAGE
    )


def _title(form: str) -> str:
    return {"paper": "the paper's form, closed", "floor": "floor form, simulated", "auto": "with head, simulated"}[form]
