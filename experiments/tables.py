"""Tables for people: rich ones on a terminal, plain aligned text with nothing cut elsewhere."""

import sys
from collections.abc import Sequence
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS = (
    "policy",
    "step s",
    "GPU s/step",
    "90 % interval",
    "saves",
    "90 % interval",
    "padding",
    "idle",
    "plan s",
    "dispatch ms",
    "basis",
    "plan",
)


def comparison_rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """The cells of a comparison, a row a policy."""
    return [_row(name, figures) for name, figures in summary["policies"].items()]


def print_comparison(summary: dict[str, Any], stream: TextIO | None = None) -> None:
    """The table, then what a reader must know beside it; on a terminal the plans, which may be long, stand below."""
    stream = stream or sys.stdout
    rows = comparison_rows(summary)
    if stream.isatty():
        print_table(COLUMNS[:-1], [row[:-1] for row in rows], stream)
        for row in rows:
            stream.write(f"{row[0]}: {row[-1]}\n")
    else:
        print_table(COLUMNS, rows, stream)
    for line in footnotes(summary):
        stream.write(line + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """One table, as wide as it must be; cells are text, never markup."""
    if stream.isatty():
        table = Table(box=SIMPLE_HEAD)
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if 0 < number < len(columns) - 1 else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console = Console(file=stream)
        needed = table.__rich_measure__(console, console.options.update(max_width=10_000)).maximum
        Console(file=stream, width=max(needed, console.width)).print(table)
        return
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]
    for line in (columns, ["-" * width for width in widths], *rows):
        cells = [
            cell.ljust(width) if i in (0, len(widths) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        stream.write("  ".join(cells).rstrip() + "\n")


def footnotes(summary: dict[str, Any]) -> list[str]:
    """Baseline, notes, and sequences that were cut or left out."""
    against = f"saves: GPU seconds saved against {summary['baseline']}, paired by batch"
    lines = [
        f"{against}; intervals: bootstrap (BCa) of the mean over batches",
        "basis: layer times were measured on this hardware, derived from such times, or are roofline (data sheet)",
    ]
    notes: dict[str, list[str]] = {}
    for name, figures in summary["policies"].items():
        for note in figures.get("notes", ()):
            notes.setdefault(note, []).append(name)
        if "failed" in figures:
            lines.append(f"{name} failed: {figures['failed']}")
    lines += [f"note: {note} ({', '.join(names)})" for note, names in notes.items()]
    for what in ("truncated", "dropped"):
        counts: dict[str, int] = {}
        for figures in summary["policies"].values():
            counts |= figures.get(what, {})
        if counts:
            lines.append(f"{what} sequences: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    return lines


def plan_text(summaries: Sequence[str]) -> str:
    """The plans of all groups; equal ones counted."""
    distinct = list(dict.fromkeys(summaries))
    if len(summaries) == 1:
        return distinct[0]
    return "; ".join(f"{summaries.count(text)} tenants {text}" for text in distinct)


def _row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    if "failed" in figures:
        return (name, *["-"] * (len(COLUMNS) - 2), f"failed: {figures['failed']}")
    return (
        name,
        f"{figures['step_seconds']:.3f}",
        f"{figures['gpu_seconds']:.2f}",
        _interval(figures["interval"], "{:.2f}"),
        _percent(figures["reduction"]),
        _interval(
            [100 * x for x in figures["reduction_interval"]] if figures["reduction_interval"] else None, "{:.1f}"
        ),
        _percent(figures["padding"]),
        _percent(figures["idle"]),
        f"{figures['planning_seconds']:.2f}",
        f"{1000 * figures['dispatch_seconds']:.1f}",
        figures["status"],
        plan_text(figures["plan_summaries"]),
    )


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f} %"


def _interval(interval: Sequence[float] | None, form: str) -> str:
    return "n/a" if interval is None else f"{form.format(interval[0])}..{form.format(interval[1])}"
