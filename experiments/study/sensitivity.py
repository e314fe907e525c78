"""What the answers hang on: every lever alone, on 7B and 70B, and where in hardware the published 60.67 % would lie.

Four policies plan for themselves at every point: the padded baseline and LobRA (the headline), both packed (what
heterogeneity still saves where the baseline packs as well), and the packed baseline beside padded LobRA (the
falsifier: within 20 %). For 70B the headline is also taken over bandwidth between nodes, tensor efficiency and memory
together, as no single figure explains it.
"""

from matplotlib.figure import Figure

from experiments.study.fair_verdicts import WITHIN
from experiments.study.point import Point, Results, Rows
from experiments.study.published import published
from experiments.study.sensitivity_figure import drawn
from experiments.study.sensitivity_levers import BASE, SETTINGS, grid, small, turned
from experiments.study.sensitivity_rows import Row, grids, rows


def points(sweep: str) -> tuple[Point, ...]:
    """Both settings with all levers, then the grid."""
    if sweep == "smoke":
        return tuple(small())
    return (*(point for setting in SETTINGS for point in turned(setting)), *grid())


def table(results: Results) -> Rows:
    """A row a position of a lever: the three answers with intervals over batches, the cheapest policy, the plans."""
    return [row.cells() for row in rows(results)]


def notes(results: Results) -> tuple[str, ...]:
    """What moves each answer most, what flips a decision, where the grid meets the published saving, and limits."""
    told = rows(results)
    lines: list[str] = []
    for setting in dict.fromkeys(row.setting for row in told):
        here = [row for row in told if row.setting == setting]
        base = next((row for row in here if row.lever == BASE), None)
        if base is not None:
            lines += _setting_lines(setting, base, [row for row in here if row.lever != BASE])
    lines += [line for grid_ in grids(results) for line in grid_.lines(published("headline")["saved_70b"])]
    return (
        *lines,
        "roofline prices, nothing of these settings was measured; memory is counted and rounded down to powers of two",
        "one lever at a time; intervals: 90 % over the batches (Student's t), prices as they are",
        "two planning batches and a small pool, so a mix may take a per cent or two more than that of lobra plan",
    )


def _setting_lines(setting: str, base: Row, others: list[Row]) -> list[str]:
    """The base, the levers that matter most, and every decision that another position changes."""
    within = f"packed Task-Fused costs {base.falsifier:.2f} times padded LobRA (falsifier: {base.verdict})"
    lines = [
        f"{setting}, as it is: LobRA saves {base.headline:.1%} of padded Task-Fused",
        f"{setting}, as it is: packed LobRA saves {base.survival:.1%} of packed Task-Fused; {within}",
    ]
    for name, title in (("headline", "the headline"), ("survival", "what survives packing")):
        order = sorted(others, key=lambda row: -abs(getattr(row, name) - getattr(base, name)))
        told = "; ".join(f"{row.title} {row.position}: {getattr(row, name):.1%}" for row in order[:4])
        lines.append(f"{setting}: {title} moves most by {told}")
    flips = [f"{row.title} {row.position} ({row.falsifier:.2f} times)" for row in others if row.fires != base.fires]
    word = "no longer" if base.fires else "now"
    lines.append(
        f"{setting}: the packed baseline is {word} within {WITHIN - 1:.0%} of padded LobRA at "
        f"{', '.join(flips) or 'none'}"
    )
    winners = [f"{row.title} {row.position} ({row.winner})" for row in others if row.winner != base.winner]
    return [*lines, f"{setting}: another policy than {base.winner} is cheapest at {', '.join(winners) or 'none'}"]


def figure(results: Results) -> Figure:
    """A tornado for each setting and answer, and the contour of the published saving."""
    return drawn(rows(results), grids(results), published("headline")["saved_70b"])
