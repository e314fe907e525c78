"""Predicted against measured, a panel a row of the fidelity table, both axes logarithmic, with the ideal line.

Drawn from what `benchmarks/validate_costmodel.py --json FILE` writes: the rows, and their points beside it.
"""

import csv
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from experiments.figures import STYLE, drawable
from experiments.rundir import read_json
from lobra.errors import BadInput

COLUMNS = ("evidence", "group", "tokens", "predicted", "measured")
RANGES = (
    ("N < 512", 512.0, "#E69F00"),
    ("512 to 4k", 4096.0, "#56B4E9"),
    ("4k and more", float("inf"), "#0072B2"),
)
UNKNOWN = ("tokens not told", "#999999")
ACROSS, TITLE = 5, 42  # panels side by side; letters of a line above one
FEW_DECADES = 60.0  # between the ends of an axis; fewer need ticks at 2 and 5


@dataclass(frozen=True, slots=True)
class Point:
    """One prediction beside its measurement."""

    evidence: str
    tokens: float | None
    predicted: float
    measured: float


def read_fidelity(path: Path) -> tuple[list[dict[str, Any]], list[Point]]:
    """Rows of the table and their points; BadInput where a file is absent or of another kind."""
    rows = read_json(path).get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "evidence" in row for row in rows):
        raise BadInput(
            f"{path}: $.rows: expected rows with an evidence; run benchmarks/validate_costmodel.py --json FILE"
        )
    beside = path.with_suffix(".points.csv")
    try:
        with beside.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise BadInput(f"{beside}: columns are {reader.fieldnames}; they must be {', '.join(COLUMNS)}")
            return rows, [_point(beside, reader.line_num, each) for each in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{beside}: it cannot be read ({error}); the benchmark writes it beside the rows") from None


def fidelity_figure(rows: Sequence[dict[str, Any]], points: Sequence[Point]) -> Figure:
    """A panel a row that has points; points that a logarithmic axis has no place for are counted in the caption."""
    panels: list[tuple[dict[str, Any], list[Point]]] = [
        (row, [each for each in points if each.evidence == row["evidence"]]) for row in rows
    ]
    panels = [(row, own) for row, own in panels if own]
    across = min(ACROSS, max(1, len(panels)))
    down = max(1, -(-len(panels) // across))
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(2.6 * across, 2.75 * down + 0.7), layout="constrained")
        FigureCanvasAgg(drawn)
        for number, (row, own) in enumerate(panels):
            _panel(drawn.add_subplot(down, across, number + 1), row, own)
        handles = [
            mpl.lines.Line2D([], [], marker="o", linestyle="", markersize=4, color=colour, label=label)
            for label, colour in ((*((name, colour) for name, _, colour in RANGES), UNKNOWN))
        ]
        drawn.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
        lost = sum(not _shown(each) for each in points)
        text = "predicted (vertical) against measured (horizontal), in the row's own unit; grey line: ideal"
        drawn.supxlabel(f"{text}; {lost} points left out" if lost else text, fontsize=8, parse_math=False)
    return drawn


def _panel(axes: Any, row: dict[str, Any], points: Sequence[Point]) -> None:
    shown = [each for each in points if _shown(each)]
    colours = np.array([_colour(each.tokens) for each in shown])
    measured, predicted = (np.array([getattr(each, name) for each in shown]) for name in ("measured", "predicted"))
    if shown:
        low = 0.8 * min(measured.min(), predicted.min())
        high = 1.25 * max(measured.max(), predicted.max())
        axes.plot([low, high], [low, high], color="#999999", linewidth=0.8, zorder=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        subs = (1.0, 2.0, 5.0) if high < FEW_DECADES * low else (1.0,)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=subs, numticks=6))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
        for colour in dict.fromkeys(colours.tolist()):
            here = colours == colour
            axes.plot(measured[here], predicted[here], "o", color=colour, markersize=2.2, markeredgewidth=0, alpha=0.7)
    axes.set_aspect("equal")
    axes.tick_params(labelsize=6)
    axes.set_title("\n".join([*textwrap.wrap(str(row["evidence"]), TITLE), _verdict(row)]), fontsize=6.5)


def _verdict(row: dict[str, Any]) -> str:
    figure, bar = row.get("figure"), row.get("bar")
    told = f"{figure:.1%}" if isinstance(figure, int | float) else "n/a"
    if isinstance(bar, int | float):
        told += f" (bar {bar:.1%}, {'holds' if row.get('holds') else 'missed'})"
    return f"{told}, n = {row.get('n', '?')}"


def _shown(point: Point) -> bool:
    return drawable(point.predicted, "log") and drawable(point.measured, "log")


def _colour(tokens: float | None) -> str:
    if tokens is None:
        return UNKNOWN[1]
    return next(colour for _, most, colour in RANGES if tokens < most)


def _point(path: Path, line: int, row: dict[str, str]) -> Point:
    try:
        tokens = float(row["tokens"]) if row["tokens"] else None
        return Point(row["evidence"], tokens, float(row["predicted"]), float(row["measured"]))
    except (TypeError, ValueError):
        raise BadInput(f"{path}, line {line}: tokens, predicted and measured must be numbers") from None
