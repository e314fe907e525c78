"""The figure of the sensitivity study: tornadoes, a row a setting and a column an answer, and contours below."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.fair_verdicts import HEADLINE, WITHIN
from experiments.study.sensitivity_levers import BASE, HIGH, LOW, SETTINGS
from experiments.study.sensitivity_rows import Grid, Row, base_of

COLUMNS = {
    "headline": ("LobRA against padded\nTask-Fused: saved, %", 100.0),
    "survival": ("both packed:\nsaved, %", 100.0),
    "falsifier": ("packed Task-Fused over\npadded LobRA, times", 1.0),
}
SIDES = {LOW: ("#56B4E9", "", "lower position"), HIGH: ("#E69F00", "////", "upper position")}
LEVELS = (30, 40, 50, 70, 80)  # per cent


def drawn(told: list[Row], grids: Sequence[Grid], wanted: float) -> Figure:
    """All of it; panels without results stay away."""
    settings = [name for name in dict.fromkeys(row.setting for row in told) if base_of(told, name) is not None]
    heights = [_height(told, setting) for setting in settings] + ([2.1] if grids else [])
    columns = max(len(COLUMNS), len(grids))
    figure, panels = style.canvas(
        style.PAGE,
        sum(heights) + 0.7 if heights else 2.0,
        max(1, len(heights)),
        columns,
        squeeze=False,
        gridspec_kw={"height_ratios": heights or [1]},
    )
    for line, setting in zip(panels, settings, strict=False):
        _tornadoes(line, told, setting)
    for panel, grid in zip(panels[-1], grids, strict=False):
        _contour(panel, grid, wanted)
    for panel in panels.ravel():
        panel.set_visible(panel.has_data())
    if settings:
        style.legend(figure, panels, 3)
    style.caption(
        figure,
        f"n = {len(told)} plannings of four policies, {sum(grid.saving.size for grid in grids)} on grids; numbers: the "
        f"position; grey: published 45 to 60 %; dotted: 20 % limit; bold contour: {wanted:.2%}; roofline",
    )
    return figure


def _height(told: list[Row], setting: str) -> float:
    return 0.7 + 0.17 * len({row.lever for row in told if row.setting == setting})


def _tornadoes(panels: Any, told: list[Row], setting: str) -> None:
    """A bar a lever, from the setting as it is; the levers that move the headline most stand above."""
    base, here = base_of(told, setting), [row for row in told if row.setting == setting and row.lever != BASE]
    assert base is not None
    far = {lever: max(abs(r.headline - base.headline) for r in here if r.lever == lever) for lever in _levers(here)}
    order = sorted(far, key=lambda lever: far[lever])
    for panel, (name, (title, unit)) in zip(panels, COLUMNS.items(), strict=False):
        middle = unit * getattr(base, name)
        for row in here:
            _bar(panel, order.index(row.lever), middle, unit * getattr(row, name), row)
        panel.axvline(middle, color=style.INK, linewidth=0.8)
        panel.set_yticks(range(len(order)), [_title(here, lever) for lever in order] if name == "headline" else [])
        panel.set_ylim(-0.7, len(order) - 0.3)
        panel.margins(x=0.22)
        panel.set_xlabel(title)
        if name == "headline":
            panel.axvspan(*(100 * end for end in HEADLINE), color="#D9D9D9", alpha=0.5, zorder=0, linewidth=0)
        if name == "falsifier":
            panel.axvline(WITHIN, color=style.INK, linewidth=0.8, linestyle=":")
        panel.set_title(f"{SETTINGS[setting].title if setting in SETTINGS else setting}: {middle:.3g}")


def _bar(panel: Any, place: int, middle: float, end: float, row: Row) -> None:
    colour, hatch, label = SIDES[row.side]
    shift = 0.2 if row.side == HIGH else -0.2
    panel.barh(
        place + shift,
        end - middle,
        0.38,
        left=middle,
        color=colour,
        hatch=hatch,
        edgecolor=style.INK,
        linewidth=0.4,
        label=label,
    )
    right = end >= middle
    style.write(
        panel, end, place + shift, f" {row.position} ", ha="left" if right else "right", va="center", fontsize=5.5
    )


def _contour(panel: Any, grid: Grid, wanted: float) -> None:
    """Lines of equal saving; the wanted one bold, the points that were planned as dots."""
    x, y = np.meshgrid(grid.between, grid.efficiency)
    panel.plot(x.ravel(), y.ravel(), ".", color=style.GREY, markersize=3)
    finite = grid.saving[np.isfinite(grid.saving)]
    if min(grid.saving.shape) > 1 and len(finite):
        levels = [level for level in LEVELS if 100 * finite.min() < level < 100 * finite.max()]
        masked = np.ma.masked_invalid(100 * grid.saving)
        if levels:
            lines = panel.contour(x, y, masked, levels=levels, colors=style.GREY, linewidths=0.8)
            panel.clabel(lines, fmt="%g", fontsize=6)
        if 100 * finite.min() < 100 * wanted < 100 * finite.max():
            bold = panel.contour(x, y, masked, levels=[100 * wanted], colors="#D55E00", linewidths=2.0)
            panel.clabel(bold, fmt="%.2f", fontsize=6.5)
    panel.set_xscale("log")
    panel.set_xticks(grid.between, [f"{value:g}" for value in grid.between])
    panel.minorticks_off()
    panel.set_xlabel("between nodes, GB/s")
    panel.set_ylabel("tensor efficiency\na doubling")
    panel.set_title(f"{grid.setting}, {grid.memory:g} GiB: saved, %")


def _levers(here: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.lever for row in here))


def _title(here: list[Row], lever: str) -> str:
    return next(row.title for row in here if row.lever == lever)
