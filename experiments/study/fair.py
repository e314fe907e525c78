"""The fair matrix: what survives of heterogeneity where the baseline may do all that LobRA may, and more.

{padded 7 and 16 widths, dynamic 16/16 and 64/64, packed} x {no, full, partial recomputation} x {context parallelism or
not} x {replicated, sharded weights} x {memory rounded as the paper's table, counted} for three models. In each cell the
best equal replicas stand beside the best mix with the same options: same kinds, planning batches, balanced dispatch,
plays of the search and judge. Two verdicts a cell: the falsifier (equal replicas within 20 % of LobRA as published; the
same against LobRA packed) and survival (the mix saves 5 % or more of the best equal replicas of that very cell), each
at 0, 1 and 3 times the cost of an adapter run.
"""

from collections import Counter
from collections.abc import Sequence

from matplotlib.figure import Figure

from experiments.study.fair_cells import Compared, compared
from experiments.study.fair_matrix import ADAPTER_COSTS, EXACT, PACKED, ROUNDED, Options, matrix_points
from experiments.study.fair_paired import saved
from experiments.study.fair_playing import matrix_part
from experiments.study.fair_verdicts import Verdict
from experiments.study.fair_waterfall import models, rows, waterfall_figure
from experiments.study.point import Point, Results, Rows

EFFORT = {"planning": 3, "plays": 6, "draws": 20, "drawn": 2}  # batches, plays of a search, draws, steps drawn
EVERYTHING = Options("some", fsdp=True, cp=True)


def points(sweep: str) -> tuple[Point, ...]:
    """A point a model, memory table and use of context parallelism."""
    return matrix_points(sweep, matrix_part, EFFORT)


def table(results: Results) -> Rows:
    """A row a cell."""
    return [_row(cell) for cell in compared(results)]


def notes(results: Results) -> tuple[str, ...]:
    """The verdicts counted, the cells that matter most, the waterfall in words, and what was left out."""
    told, lines = compared(results), []
    for model in models(results):
        here = [cell for cell in told if cell.cell.model == model]
        lines += [*_counts(model, here), *(_line(cell) for cell in here if _matters(cell))]
    lines += [
        f"{row['model']}, {row['order']}: {row['ingredient']} leaves {100 * row['left']:.1f} % ({row['basis']})"
        for row in rows(results)
    ]
    searches = Counter[str]()
    for point in results.values():
        searches.update(point["searches"])
    return (
        *lines,
        f"searches for mixes: {searches['made']}, {searches['infeasible']} of them without a plan",
        f"left out, as the plan found with more options needs none of those that they lack: {searches['identical']}",
        "intervals: 90 %, batches (paired, Student's t) and joint draws of the prices (the same truth for both sides)",
        "they hold no doubt about the lengths, which are fitted to published moments; memory is an axis of its own",
        "0x and 3x: the same plans and step plans, priced at 0 and 3 times the cost of an adapter run",
        "partial recomputation may also recompute all layers; what fewer options find is a candidate with more",
    )


def figure(results: Results) -> Figure:
    """The waterfall."""
    return waterfall_figure(results)


def _row(told: Compared) -> dict[str, float | str | bool | None]:
    cell, (value, ends) = told.cell, saved(told.saving())
    row: dict[str, float | str | bool | None] = {
        "model": cell.model,
        "memory": cell.memory,
        "batching": cell.batching,
        "recompute": cell.options.recompute,
        "cp": cell.options.cp,
        "sharded": cell.options.fsdp,
        "equal": told.equal.gpu_seconds[1].mean,
        "mix": told.mix.gpu_seconds[1].mean,
        "saves": value,
        "low": ends and ends[0],
        "high": ends and ends[1],
        "survival": str(told.survival()),
        "if prices are right": told.survival().given_prices,
        "over LobRA": told.over(),
        "falsifier": _text(told.falsifier()),
        "falsifier if prices are right": _word(told.falsifier(), given=True),
        "over packed LobRA": told.over(packed=True),
        "falsifier packed": _text(told.falsifier(packed=True)),
    }
    for times in ADAPTER_COSTS:
        if times != 1:
            row[f"survival {times}x"] = told.survival(times).word
            row[f"falsifier {times}x"] = _word(told.falsifier(times))
            row[f"falsifier packed {times}x"] = _word(told.falsifier(times, packed=True))
    return row | {"equal plan": told.equal.summary, "mix plan": told.mix.summary}


def _counts(model: str, told: Sequence[Compared]) -> list[str]:
    """How often each verdict says what, prices as unsure as they are and prices right."""
    lines = []
    for name, verdicts in (
        ("falsifier, against LobRA as published", [cell.falsifier() for cell in told]),
        ("falsifier, against LobRA packed", [cell.falsifier(packed=True) for cell in told]),
        ("survival", [cell.survival() for cell in told]),
    ):
        known = [verdict for verdict in verdicts if verdict is not None]
        words, given = Counter(v.word for v in known), Counter(v.given_prices for v in known)
        parts = [f"{word} {words[word]} (if prices are right {given[word]})" for word in ("fires", "does not")]
        lines.append(f"{model}, {name}: {', '.join(parts)} of {len(known)} cells")
    flagged = sum(bool(cell.survival().flags) for cell in told)
    changed = sum(len({cell.survival(times).given_prices for times in ADAPTER_COSTS}) > 1 for cell in told)
    lines.append(
        f"{model}: {flagged} of {len(told)} cells rest on derived, roofline or extrapolated costs; survival, prices "
        f"taken as right, changes between 0 and 3 times the cost of an adapter run in {changed}"
    )
    return lines


def _matters(told: Compared) -> bool:
    """Packed, with nothing else, with recomputation, and with everything."""
    cell = told.cell
    plain = cell.memory == ROUNDED and cell.options in (Options(), Options("full"), Options("some"))
    everything = cell.options == EVERYTHING or cell.options == Options(cp=True)
    return cell.batching == PACKED and (plain or (everything and cell.memory in (ROUNDED, EXACT)))


def _line(told: Compared) -> str:
    cell, options = told.cell, told.cell.options
    value, ends = saved(told.saving())
    interval = "" if ends is None else f" ({100 * ends[0]:.1f}..{100 * ends[1]:.1f})"
    over, packed = told.over(), told.over(packed=True)
    return (
        f"{cell.model}, {cell.batching}, recompute {options.recompute}, {'cp' if options.cp else 'no cp'}, "
        f"{'sharded' if options.fsdp else 'replicated'}, memory {cell.memory}: the mix {told.mix.summary} saves "
        f"{100 * value:.1f} %{interval} of {told.equal.summary}; survival {told.survival()} (if prices are right: "
        f"{told.survival().given_prices}); falsifier {_text(told.falsifier())} against LobRA as published "
        f"({'-' if over is None else f'{over:.2f}'} times), {_text(told.falsifier(packed=True))} against it packed "
        f"({'-' if packed is None else f'{packed:.2f}'} times)"
    )


def _text(verdict: Verdict | None) -> str | None:
    return None if verdict is None else str(verdict)


def _word(verdict: Verdict | None, *, given: bool = False) -> str | None:
    return None if verdict is None else verdict.given_prices if given else verdict.word
