"""What published tables have in common: errors, kept order, and ours against published in one figure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.point import Results, Rows


def failed_lines(results: Results) -> tuple[str, ...]:
    """A line for every policy of a comparison that could not be played."""
    return tuple(
        f"{point}, {name} failed: {body['failed']}"
        for point, result in results.items()
        for name, body in result["policies"].items()
        if "failed" in body
    )


def error_line(name: str, rows: Rows, column: str) -> str:
    """Mean and largest absolute error of a column, and its mean signed one."""
    errors = np.array([row[f"{column}_error"] for row in rows])
    return (
        f"{name}: mean error {np.abs(errors).mean():.1%}, largest {np.abs(errors).max():.1%}, "
        f"mean signed {errors.mean():+.1%}, n = {len(errors)}"
    )


def correlation(rows: Rows, columns: Iterable[str]) -> str:
    """How far each column keeps the order of the published values: pairs in the same order, as a share."""
    theirs = [row["published"] for row in rows]
    told = [
        f"{column} {_in_order(theirs, [row[column] for row in rows]):.1%}"
        for column in columns
        if rows and column in rows[0]
    ]
    return f"pairs of rows in the published order: {', '.join(told)}"


def _in_order(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Share of the pairs that differ in both whose difference has the same sign."""
    pairs = [
        (a - c) * (b - d) for (a, b), (c, d) in combinations(zip(theirs, ours, strict=True), 2) if a != c and b != d
    ]
    return sum(product > 0 for product in pairs) / len(pairs) if pairs else 1.0


def identity_figure(rows: Rows, columns: Mapping[str, str], unit: str, width: float) -> Figure:
    """Ours against published on logarithmic axes, a panel a column, tensor-parallel sizes told apart."""
    drawn, axes = style.canvas(width, 2.9, 1, max(1, len(columns)), squeeze=False, sharey=True)
    values = [row[column] for row in rows for column in ("published", *columns)]
    ends = [0.85 * min(values), 1.2 * max(values)]
    for panel, (column, title) in zip(axes[0], columns.items(), strict=False):
        panel.plot(ends, ends, color=style.GREY, linewidth=0.8, zorder=1)
        for number, tp in enumerate(sorted({row["tp"] for row in rows})):
            here = [row for row in rows if row["tp"] == tp]
            panel.plot(
                [row["published"] for row in here],
                [row[column] for row in here],
                style.MARKERS[number],
                color=style.ORDER[number],
                markeredgecolor=style.INK,
                markeredgewidth=0.4,
                markersize=4.5,
                linestyle="none",
                label=f"tp {tp}",
            )
        errors = np.abs([row[f"{column}_error"] for row in rows])
        style.corner(panel, f"mean error {errors.mean():.1%}\nlargest {errors.max():.1%}")
        panel.set_xscale("log")
        panel.set_yscale("log")
        style.plain_ticks(panel, ends)
        panel.set_title(title)
        panel.set_xlabel("published")
    axes[0][0].set_ylabel(f"ours, {unit}")
    style.legend(drawn, axes, 4)
    style.caption(drawn, f"7B, A100-40GB, {unit}; n = {len(rows)} published values; grey line: equal")
    return drawn
