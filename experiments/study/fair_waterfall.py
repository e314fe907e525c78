"""The waterfall: from padded equal replicas to the best of all, one ingredient after another, in two orders.

How much an ingredient seems to be worth depends on when it is added; so the mix of replicas is added first, and last.
Bars are what is left of the first row's cost; each row's interval is that of its own cost against the first row's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from experiments.study import style
from experiments.study.fair_cells import Side, all_runs, side, was_searched
from experiments.study.fair_matrix import EXACT, MODELS, ROUNDED, Cell, Options
from experiments.study.fair_paired import Ratio, ratio
from experiments.study.point import Results, Rows

START = ("padded 7", Options(), ROUNDED)
INGREDIENTS = (
    ("16 widths", ("padded 16", Options(), ROUNDED)),
    ("dynamic buckets", ("dynamic 16/16", Options(), ROUNDED)),
    ("64 buckets", ("dynamic 64/64", Options(), ROUNDED)),
    ("packing", ("packed", Options(), ROUNDED)),
    ("recomputation", ("packed", Options("some"), ROUNDED)),
    ("sharded weights", ("packed", Options("some", fsdp=True), ROUNDED)),
    ("context parallelism", ("packed", Options("some", fsdp=True, cp=True), ROUNDED)),
    ("memory not rounded", ("packed", Options("some", fsdp=True, cp=True), EXACT)),
)
FIRST, MIX = "padded, 7 widths", "mix of replicas"
ORDERS = {"mix last": False, "mix first": True}


@dataclass(frozen=True, slots=True)
class Drop:
    """One row: what is left after an ingredient is added, of the first row's cost."""

    ingredient: str
    left: Ratio
    before: float
    flags: tuple[str, bool]
    plan: str


def drops(results: Results, model: str, *, mix_first: bool) -> list[Drop]:
    """The rows of one model; an ingredient that was not played is left out, and nothing without the first row."""
    runs = all_runs(results)
    wanted = [(FIRST, START, False)]
    wanted += [(MIX, START, True)] if mix_first else []
    wanted += [(name, at, mix_first) for name, at in INGREDIENTS]
    wanted += [] if mix_first else [(MIX, _last(results, model), True)]
    found: list[tuple[str, Side]] = []
    for name, (batching, options, memory), mixed in wanted:
        cell = Cell(model, memory, batching, options)
        one = side(runs, cell, mixed=mixed) if was_searched(results, cell) else None
        if one is None and not found:
            return []
        if one is not None:
            found.append((name, one))
    first = found[0][1].gpu_seconds[1]
    ratios = [ratio(one.gpu_seconds[1], first) for _, one in found]
    return [
        Drop(name, left, before, one.basis, one.summary)
        for (name, one), left, before in zip(found, ratios, [1.0, *(r.value for r in ratios)], strict=False)
    ]


def rows(results: Results) -> Rows:
    """The same as plain rows."""
    return [
        {
            "model": model,
            "order": order,
            "ingredient": drop.ingredient,
            "left": drop.left.value,
            "low": drop.left.ends and drop.left.ends[0],
            "high": drop.left.ends and drop.left.ends[1],
            "saves_of_all": drop.before - drop.left.value,
            "basis": drop.flags[0],
            "plan": drop.plan,
        }
        for model in models(results)
        for order, mix_first in ORDERS.items()
        for drop in drops(results, model, mix_first=mix_first)
    ]


def models(results: Results) -> list[str]:
    """Models of the results, in the matrix's order."""
    there = {point["model"] for point in results.values()}
    return [name for name in (*MODELS, "small") if name in there]


def waterfall_figure(results: Results) -> Figure:
    """A column a model, a row an order."""
    names = models(results)
    columns = max(1, len(names))
    drawn, axes = style.canvas(style.PAGE, 4.8, len(ORDERS), columns, squeeze=False, sharex=True, sharey="row")
    for row, (order, mix_first) in enumerate(ORDERS.items()):
        found = [drops(results, model, mix_first=mix_first) for model in names]
        there = {drop.ingredient for told in found for drop in told}
        labels = [name for name in _labels(mix_first=mix_first) if name in there]  # the same places for all models
        for column, (model, told) in enumerate(zip(names, found, strict=True)):
            panel = axes[row][column]
            _bars(panel, told, labels)
            panel.set_title(f"{MODELS.get(model, model)}, {order}{f' ({told[-1].flags[0]})' if told else ''}")
    for panel in axes[-1]:
        panel.set_xlabel("GPU seconds, % of the first row")
    count = sorted({point["batches"] for point in results.values()})
    style.caption(
        drawn,
        f"n = {', '.join(map(str, count)) or 0} batches; lines: 90 %, batches and prices; all rows tuned alike, with "
        "balanced dispatch;\nthe plan of a row is chosen on other batches, so a row may be worse than the one before",
    )
    return drawn


def _labels(*, mix_first: bool) -> list[str]:
    """All rows that there may be, from above."""
    others = [name for name, _ in INGREDIENTS]
    return [FIRST, MIX, *others] if mix_first else [FIRST, *others, MIX]


def _bars(panel: Any, told: Sequence[Drop], labels: Sequence[str]) -> None:
    """What each ingredient takes away (or adds), with the interval of what is left."""
    for number, drop in enumerate(told):
        place = labels.index(drop.ingredient)
        low, high = sorted((100 * drop.left.value, 100 * (drop.before if number else 0.0)))
        look = style.look_of("lobra" if drop.ingredient == MIX else "task_fused_packed" if number else "task_fused")
        panel.barh(place, high - low, left=low, color=look.colour, edgecolor=style.INK, linewidth=0.5, height=0.7)
        if number and drop.left.ends is not None:
            ends = [100 * end for end in drop.left.ends]
            panel.plot(ends, [place, place], color=style.INK, linewidth=1.0, marker="|", markersize=4)
        style.write(panel, 101, place, f"{100 * drop.left.value:.0f}", ha="left", va="center")
    panel.set_yticks(range(len(labels)), labels)
    if labels and not panel.yaxis_inverted():
        panel.invert_yaxis()
    panel.set_xlim(0, 112)


def _last(results: Results, model: str) -> tuple[str, Options, str]:
    """The last ingredient that was played: there the mix is added."""
    for _, (batching, options, memory) in reversed(INGREDIENTS):
        if was_searched(results, Cell(model, memory, batching, options)):
            return batching, options, memory
    return START
