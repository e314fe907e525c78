"""Table 3, throughput of every configuration on 7B and A100-40GB: 23 published values beside ours.

The layer behind this table is faster at tp 1 than the one in the authors' profile (12.5 against 14.6 ms for 2,048
tokens), so every form that rests on the profile is low there; what plans depend on is the order of configurations.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.build import build_world
from experiments.job import Job
from experiments.study import style
from experiments.study.point import Options, Point, Results, Rows
from experiments.study.published import error, published
from experiments.study.published_steps import table3
from experiments.study.tablewise import correlation, error_line, identity_figure

FORMS = {"paper": "closed", "floor": "pipeline", "auto": "pipeline"}
SMOKE = 4  # rows


def points(sweep: str) -> tuple[Point, ...]:
    """A point a cost form."""
    rows = {"rows": SMOKE} if sweep == "smoke" else {}
    return tuple(
        Point(form, ("experiment=paper_7b", f"cost={form}"), (), throughputs, {"fidelity": fidelity} | rows)
        for form, fidelity in FORMS.items()
    )


def throughputs(job: Job, folder: Path, options: Options) -> dict[str, Any]:
    """Every row of the table under one cost form."""
    cost = build_world(job.config).cost
    rows = published("table3")[: options.get("rows")]
    return {"rows": table3(cost, options["fidelity"], rows)}


def table(results: Results) -> Rows:
    """Published throughput, and ours by every form with their errors."""
    forms = [form for form in FORMS if form in results]
    rows: Rows = []
    for number in range(max((len(results[form]["rows"]) for form in forms), default=0)):
        first = results[forms[0]]["rows"][number]
        row = {key: first[key] for key in ("tp", "pp", "length", "published")}
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
        "nothing is fitted to this table; micro-batches of as many sequences as fit, 32 of them (assumed)",
        correlation(rows, FORMS),
    )


def figure(results: Results) -> Figure:
    """Ours against published, a panel a form."""
    titles = {"paper": "the paper's form, closed", "floor": "floor form, simulated", "auto": "with head, simulated"}
    return identity_figure(
        table(results),
        {form: titles[form] for form in FORMS if form in results},
        "thousands of tokens per GPU and second",
        style.PAGE,
    )
