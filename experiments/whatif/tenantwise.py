"""A row for every tenant: finish, wait, GPU hours, dollars, slowdown against alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from experiments.capacity.accounting import Bill
from experiments.capacity.money import Invoice
from experiments.whatif.answer import Cell, Chart, Series, Sheet
from experiments.whatif.numbers import quantile_figure
from experiments.whatif.playing import Played

COLUMNS = (
    "steps",
    "finish p50 h",
    "90 % interval",
    "finish p95 h",
    "at most h",
    "wait h",
    "slowdown",
    "GPU h",
    "GPU h alone",
)


@dataclass(slots=True)
class Row:
    """One tenant, or all tenants of one kind, over the plays; a value a play."""

    finish: list[float] = field(default_factory=list)  # hours
    wait: list[float] = field(default_factory=list)
    slowdown: list[float] = field(default_factory=list)
    gpu_hours: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    dollars: list[float] = field(default_factory=list)


def rows_of(played: Played, bills: Sequence[Bill], invoices: Sequence[Invoice] = ()) -> dict[str, Row]:
    """By tenant where a team comes together, by kind where a stream does; of a kind's tenants the mean in a play."""
    together = played.asked.config.arrivals.kind == "together"
    rows: dict[str, Row] = {}
    for number, (history, bill) in enumerate(zip(played.histories, bills, strict=True)):
        shares = dict(bill.shares)
        paid = {share.tenant: share.total for share in invoices[number].shares} if invoices else {}
        seen: dict[str, list[tuple[float, ...]]] = {}
        for record in history.records:
            name = record.job.name
            alone = record.steps * played.alone_seconds(name, number)
            completion = record.completion_seconds or math.nan
            values = (completion, record.wait_seconds or 0.0, completion / alone, shares[name], alone * played.gpus)
            key = name if together else played.oracle.kind_of[name]
            seen.setdefault(key, []).append((*values, record.steps, paid.get(name, 0.0)))
        for key, found in seen.items():
            _add(rows.setdefault(key, Row()), np.mean(np.array(found), axis=0).tolist())
    names = [offer.tenant.name for offer in played.asked.offers]
    return {name: rows[name] for name in names if name in rows}


def _add(row: Row, values: Sequence[float]) -> None:
    finish, wait, slowdown, share, alone, steps, dollars = values
    row.finish.append(finish / 3600)
    row.wait.append(wait / 3600)
    row.slowdown.append(slowdown)
    row.gpu_hours.append(share / 3600)
    row.alone.append(alone / 3600)
    row.steps.append(steps)
    row.dollars.append(dollars)


def tenant_sheet(rows: Mapping[str, Row], currency: str | None) -> Sheet:
    """What each tenant gets and takes; medians over the plays, bounds where there are plays enough."""
    money = (currency,) if currency is not None else ()
    cells: list[tuple[Cell, ...]] = []
    for name, row in rows.items():
        middle = quantile_figure("finish", row.finish, 0.5, "h")
        tail = quantile_figure("finish", row.finish, 0.95, "h")
        interval = f"{_short(middle.low)}..{_short(middle.high)}"
        plain = (_median(row.wait), _median(row.slowdown), _median(row.gpu_hours), _median(row.alone))
        paid = (_median(row.dollars),) if money else ()
        steps = round(_median(row.steps))
        cells.append((name, steps, middle.value, interval, tail.value, tail.high, *plain, *paid))
    return Sheet("by tenant", ("tenant", *COLUMNS, *money), tuple(cells))


def finish_chart(rows: Mapping[str, Row]) -> Chart:
    """When each finishes."""
    figures = {name: quantile_figure("finish", row.finish, 0.5, "h") for name, row in rows.items()}
    tails = [quantile_figure("finish", row.finish, 0.95, "h") for row in rows.values()]
    last = max(figures, key=lambda name: figures[name].value or 0.0)
    series = (
        Series(
            "p50",
            tuple(figures),
            tuple(each.value for each in figures.values()),
            tuple(each.low for each in figures.values()),
            tuple(each.high for each in figures.values()),
        ),
        Series("p95", tuple(figures), tuple(each.value for each in tails)),
    )
    tells = f"hours from arrival to the last step; the last is {last} with {figures[last].value:.3g} h at the median"
    return Chart("bar", "when each tenant finishes", "tenant", "hours", series, tells)


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
