"""The fidelity table on the screen, as JSON, and its points for the figure."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fidelity.rows import Row
from lobra.files import write_atomically

POINTS = ("evidence", "group", "tokens", "predicted", "measured")


def body(row: Row) -> dict[str, Any]:
    """A row as JSON: the five fields of the table first, then what stands behind them."""
    told: dict[str, Any] = {
        "evidence": row.evidence,
        "figure": _short(row.figure),
        "bar": row.bar,
        "holds": row.holds,
        "n": row.n,
        "fitted": row.fitted,
        "repeat_noise": row.repeat_noise,
        "notes": list(row.notes),
        "beside": {name: _short(value) for name, value in row.beside.items()},
    }
    if row.held is not None:
        sizes = np.abs(row.held.errors)
        groups = row.held.by_group()
        worst = max(groups, key=lambda name: groups[name])
        told |= {
            "median": _short(float(np.median(sizes))),
            "p95": _short(float(np.quantile(sizes, 0.95))),
            "largest": _short(float(sizes.max())),
            "bias": _short(float(row.held.errors.mean())),
            "worst_bucket": {"name": worst, "mean": _short(groups[worst])},
            "ranges": {name: _short(value) for name, value in row.held.by_range().items()},
        }
    return told


def write(rows: Sequence[Row], path: Path, skipped: Sequence[str]) -> None:
    """FILE with the rows, and beside it FILE's name with .points.csv."""
    text = json.dumps(
        {"schema": 1, "rows": [body(row) for row in rows], "skipped": list(skipped)}, indent=1, ensure_ascii=False
    )
    write_atomically(path, text + "\n")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(POINTS)
    for row in rows:
        if row.held is None:
            continue
        tokens = [""] * row.n if row.held.tokens is None else [f"{each:.0f}" for each in row.held.tokens]
        columns = (row.held.groups, tokens, row.held.predicted, row.held.measured)
        for group, token, predicted, measured in zip(*columns, strict=True):
            writer.writerow([row.evidence, group, token, f"{predicted:.6g}", f"{measured:.6g}"])
    write_atomically(path.with_suffix(".points.csv"), buffer.getvalue())


def show(rows: Sequence[Row]) -> None:
    """The table: a line a row, and below it what was fitted."""
    print(f"{'evidence':72}{'figure':>8}{'bar':>7} {'':5}{'n':>5}{'median':>8}{'p95':>7}  ranges; worst bucket")
    for each in map(body, rows):
        bar = "" if each["bar"] is None else f"{each['bar']:.1%}"
        verdict = {None: "", True: "holds", False: "MISSED"}[each["holds"]]
        print(
            f"{each['evidence']:72}{each['figure']:8.2%}{bar:>7} {verdict:6}{each['n']:4}"
            + (f"{each['median']:8.2%}{each['p95']:7.1%}  {_places(each)}" if "median" in each else "")
        )
        print(f"    fitted: {each['fitted']}")
        extra = [f"{name.replace('_', ' ')} {value:.2%}" for name, value in each["beside"].items()]
        for note in (*extra, *each["notes"]):
            print(f"    {note}")
    noises = dict.fromkeys(f"{row.evidence.partition(',')[0]}: {row.repeat_noise}" for row in rows if row.held)
    print("repeat noise", *noises, sep="\n    ")


def _places(each: dict[str, Any]) -> str:
    ranges = ", ".join(f"{name} {value:.1%}" for name, value in each["ranges"].items())
    worst = each["worst_bucket"]
    return f"{ranges}; {worst['name']} {worst['mean']:.1%}" if ranges else f"{worst['name']} {worst['mean']:.1%}"


def _short(value: float) -> float:
    return float(f"{value:.5g}")
