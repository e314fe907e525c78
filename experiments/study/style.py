"""How figures of a study look: sizes for a page, systems told apart without colour, intervals, captions with n.

Each system has a colour of Okabe and Ito and a hatching, so that bars differ in print without colour and for
colour-blind readers; lines differ by marker. Figures are drawn without a display and saved by `experiments.figures`.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from experiments.figures import STYLE

COLUMN, PAGE = 3.5, 7.1  # inches, of a paper in two columns
INK = "#1A1A1A"
GREY = "#8C8C8C"


@dataclass(frozen=True, slots=True)
class Look:
    """How one system is drawn."""

    label: str
    colour: str
    hatch: str = ""
    marker: str = "o"
    line: str = "-"


LOOKS = {
    "published": Look("published", "#FFFFFF", "", "D", ":"),
    "task_fused": Look("Task-Fused", "#B8B8B8", "", "s"),
    "task_sequential": Look("Task-Sequential", "#DDDDDD", "....", "v"),
    "lobra_sequential": Look("LobRA-Sequential", "#9FD3F0", "////", "^"),
    "length_based": Look("length-based dispatch", "#E69F00", "\\\\\\\\", "<"),
    "lobra_fixed": Look("LobRA, fixed buckets", "#56B4E9", "xxxx", ">"),
    "lobra": Look("LobRA", "#0072B2", "", "o"),
    "lobra_pipeline": Look("LobRA, with a pipeline", "#0072B2", "", "o"),
    "task_fused_packed": Look("Task-Fused, packed", "#F0E442", "", "P"),
    "task_fused_packed_balanced": Look("Task-Fused, packed + balanced", "#F0B442", "++", "X"),
    "task_fused_dynamic": Look("Task-Fused, dynamic buckets", "#F5D9A8", "--", "p"),
    "lobra_packed": Look("LobRA, packed", "#009E73", "", "d"),
}
ORDER = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#666666")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")


def look_of(name: str) -> Look:
    """The look of a system; one without a look of its own is grey."""
    return LOOKS.get(name, Look(name, GREY))


def styled() -> AbstractContextManager[None]:
    """Matplotlib's settings for all that is drawn within; the verbs draw every study's figure so."""
    return mpl.rc_context(STYLE | FINE)


def canvas(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure of that many inches, and its axes: one, or an array of them."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    return drawn, drawn.subplots(rows, columns, **options)


def bar(axes: Any, place: float, value: float, look: Look, *, width: float = 0.8, label: bool = False) -> None:
    """One upright bar."""
    axes.bar(
        place,
        value,
        width,
        color=look.colour,
        hatch=look.hatch,
        edgecolor=INK,
        linewidth=0.5,
        label=look.label if label else None,
    )


def interval(axes: Any, place: float, ends: Sequence[float] | None) -> None:
    """An upright interval; nothing where nobody knows one."""
    if ends is not None:
        axes.plot([place, place], list(ends), color=INK, linewidth=1.0, marker="_", markersize=4, zorder=3)


def write(axes: Any, x: float, y: float, text: str, **options: Any) -> None:
    """Small text above a point, never read as mathematics."""
    axes.text(x, y, text, **({"ha": "center", "va": "bottom", "fontsize": 6.5, "parse_math": False} | options))


def legend(drawn: Figure, axes: Any, columns: int) -> None:
    """One legend above the whole figure, every label once."""
    found: dict[str, Any] = {}
    for each in np.ravel(axes):
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    drawn.legend(
        list(found.values()), list(found), loc="outside upper center", ncols=columns, frameon=False, handlelength=1.4
    )


def caption(drawn: Figure, text: str) -> None:
    """What a reader needs below the figure: n, intervals, what is derived."""
    drawn.supxlabel(text, fontsize=6.5, parse_math=False, color="#404040")


FINE: Any = {
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.5,
    "legend.fontsize": 7.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.7,
}
WHITE: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}


def diamond(axes: Any, place: float, value: float, *, label: bool = False) -> None:
    """A published figure beside ours."""
    axes.plot(
        [place],
        [value],
        "D",
        color="#D55E00",
        markeredgecolor=INK,
        markeredgewidth=0.6,
        markersize=5,
        linestyle="none",
        zorder=4,
        label="published" if label else None,
    )


def curve(
    axes: Any,
    places: Sequence[float],
    values: Sequence[float],
    look: Look,
    *,
    label: str | None = None,
    line: str | None = None,
    ends: Sequence[tuple[float | None, float | None]] = (),
) -> None:
    """A line with markers, and an interval at every place that has one."""
    axes.plot(
        places,
        values,
        line or look.line,
        marker=look.marker,
        color=look.colour,
        markersize=4,
        linewidth=1.3,
        markeredgecolor=INK,
        markeredgewidth=0.4,
        label=label,
    )
    for place, (low, high) in zip(places, ends, strict=False):
        if low is not None and high is not None:
            interval(axes, place, (low, high))


def corner(axes: Any, text: str) -> None:
    """Small text in the upper left corner of a panel."""
    axes.text(0.04, 0.96, text, transform=axes.transAxes, ha="left", va="top", fontsize=6.5, parse_math=False)


def plain_ticks(axes: Any, ends: Sequence[float]) -> None:
    """Plain numbers at 1, 2 and 5 on both logarithmic axes of a panel."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
