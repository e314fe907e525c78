"""Question 10, `mix`: how many GPUs to reserve for a demand that comes and goes, the rest on demand.

The demand is read from jobs that have run (submission, duration, GPUs), each taken to hold its GPUs from its submission
on. It is one history: the interval of the bill says what other weeks of the same kind would cost, days drawn anew, and
the regret what this choice costs if demand turns out a fifth smaller or larger.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.capacity.mix import Demand, Mixed, Rates, best, bill_interval, choices, demand_of, regret
from experiments.capacity.prices import Price, PriceBook
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet
from experiments.whatif.asking import Asked, priced_of
from experiments.whatif.numbers import plain
from experiments.whatif.playing import Ground
from experiments.whatif.standing import answered
from lobra.errors import BadInput

ASKS = "How many GPUs should be reserved, and how many taken on demand?"
COLUMNS = ("submit_s", "duration_s", "gpus")
TURNS_OUT = (0.8, 1.0, 1.2)
SHOWN = 12  # choices in the table
NOT_ASKED = ("model", "policy", "prices of work")  # nothing is planned or played
FIRM = Ground("measured", False, 0.0, ("the demand of jobs that have run; no cost of work is asked for",))


def answer(asked: Asked) -> Answer:
    """The best number reserved, what it costs, and the regret of it."""
    priced = priced_of(replace(asked, config=replace(asked.config, offer="on_demand")))
    if priced is None:
        raise BadInput("prices: a value is missing; mix needs them, give prices=2026-11 or a file of your own")
    if asked.config.mix.demand is None:
        raise BadInput("mix.demand: a value is missing; give a CSV or Parquet of jobs: submit_s, duration_s, gpus")
    reserved, how = reserved_rate(asked, priced.price, priced.book)
    demand = read_demand(Path(asked.config.mix.demand))
    rates = Rates(reserved, priced.price.per_gpu_hour, priced.price.gpus_per_node)
    chosen, every = best(demand, rates), choices(demand, rates)
    interval = bill_interval(demand, rates, chosen.reserved_gpus, asked.config.seed)
    regrets = {factor: regret(demand, rates, chosen.reserved_gpus, factor) for factor in TURNS_OUT}
    unit = priced.book.currency
    made = answered(
        asked,
        [FIRM],
        "told",
        [*_sentences(demand, chosen, every, regrets, unit), f"Reserved GPUs cost {reserved:.4g} an hour each: {how}."],
        asks=ASKS,
        figures=_figures(demand, chosen, interval, regrets, unit),
        sheets=[_sheet(every, chosen, unit)],
        charts=[_bill_chart(every, chosen, unit), _demand_chart(demand, chosen)],
        priced=priced,
        extra={"reserved": how},
    )
    return replace(made, provenance={key: made.provenance[key] for key in made.provenance if key not in NOT_ASKED})


def reserved_rate(asked: Asked, price: Price, book: PriceBook) -> tuple[float, str]:
    """What a reserved GPU costs an hour, and why; BadInput where neither a discount nor a row tells it."""
    discount = asked.config.mix.discount
    if discount is not None:
        if not 0 <= discount < 1:
            raise BadInput(f"mix.discount is {discount}; it is a part of the price, from 0 to below 1")
        return price.per_gpu_hour * (1 - discount), f"{discount:.0%} below on demand, as assumed"
    if (price.gpu, price.provider, "reserved") not in {(each.gpu, each.provider, each.kind) for each in book.offers}:
        raise BadInput(
            f"mix.discount: a value is missing, and prices '{book.name}' have no reserved price of {price.gpu} at "
            f"{price.provider}; give mix.discount=0.4 or such, or add the row"
        )
    row = book.find(price.gpu, price.provider, "reserved")
    return row.per_gpu_hour, row.cited


def read_demand(path: Path) -> Demand:
    """GPUs in use, hour by hour from the first submission."""
    owner = f"mix.demand '{path.name}'"
    uses = []
    for line, row in enumerate(_rows(path, owner), 2):
        try:
            at, seconds, gpus = (float(row[name]) for name in COLUMNS)
        except (TypeError, ValueError):
            raise BadInput(f"{owner}, line {line}: {', '.join(COLUMNS)} must be numbers, got {row}") from None
        if not (math.isfinite(at) and 0 <= seconds < math.inf and 0 <= gpus < math.inf):
            raise BadInput(f"{owner}, line {line}: a duration or a number of GPUs is negative or not finite: {row}")
        uses.append((at, at + seconds, gpus))
    first = min((at for at, _, _ in uses), default=0.0)
    return demand_of((start - first, end - first, gpus) for start, end, gpus in uses)


def _rows(path: Path, owner: str) -> Iterator[dict[str, Any]]:
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            header, rows = table.column_names, table.to_pylist()
        else:
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                header, rows = list(reader.fieldnames or ()), list(reader)
    except (OSError, UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise BadInput(f"{owner}: it cannot be read ({str(error).splitlines()[0]})") from None
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise BadInput(f"{owner}: column {missing[0]} is missing; its header is {', '.join(header)[:200]!r}")
    return ({name: row[name] for name in COLUMNS} for row in rows)


def _sentences(
    demand: Demand, chosen: Mixed, every: Sequence[Mixed], regrets: dict[float, float], unit: str
) -> list[str]:
    nothing = every[0]
    days = len(demand.gpus) / 24
    saves = 100 * (1 - chosen.bill / nothing.bill) if nothing.bill > 0 else 0.0
    worst = max(regrets, key=regrets.__getitem__)
    bill = f"{chosen.bill:.4g} {unit} for {days:.3g} days, {saves:.3g} % below all on demand"
    less = f"another choice would have cost {regrets[worst]:.4g} {unit} less"
    return [
        f"Reserve {chosen.reserved_gpus} GPUs: {bill}.",
        f"They stand idle for {chosen.idle_gpu_hours:.4g} GPU h; {chosen.unmet_gpu_hours:.4g} GPU h are needed beyond.",
        f"If demand turns out {worst:g} times as large, {less}.",
    ]


def _figures(
    demand: Demand, chosen: Mixed, interval: tuple[float, float] | None, regrets: dict[float, float], unit: str
) -> list[Figure]:
    low, high = interval or (None, None)
    note = "days drawn anew" if interval else "no interval: 7 days of demand are needed"
    return [
        plain("reserved", chosen.reserved_gpus, "GPUs"),
        Figure("bill", chosen.bill, unit, low, high, samples=max(1, demand.days), note=note),
        plain("reserved and idle", chosen.idle_gpu_hours, "GPU h"),
        plain("needed beyond", chosen.unmet_gpu_hours, "GPU h", "unmet where nothing is to be had on demand"),
        plain("demand, mean", math.fsum(demand.gpus) / len(demand.gpus), "GPUs"),
        plain("demand, peak hour", max(demand.gpus), "GPUs"),
        *(plain(f"regret at {factor:g} times the demand", value, unit) for factor, value in regrets.items()),
    ]


def _sheet(every: Sequence[Mixed], chosen: Mixed, unit: str) -> Sheet:
    step = max(1, math.ceil(len(every) / SHOWN))
    shown = [each for number, each in enumerate(every) if number % step == 0 or each == chosen]
    rows: list[tuple[Cell, ...]] = [
        (
            each.reserved_gpus,
            each.bill,
            each.reserved_cost,
            each.on_demand_cost,
            each.idle_gpu_hours,
            each.unmet_gpu_hours,
            "best" if each == chosen else "",
        )
        for each in shown
    ]
    columns = (
        "reserved GPUs",
        f"bill {unit}",
        f"reserved {unit}",
        f"on demand {unit}",
        "idle GPU h",
        "beyond GPU h",
        "",
    )
    return Sheet("by number reserved", columns, tuple(rows))


def _bill_chart(every: Sequence[Mixed], chosen: Mixed, unit: str) -> Chart:
    series = Series("bill", tuple(each.reserved_gpus for each in every), tuple(each.bill for each in every))
    tells = f"The bill is least, {chosen.bill:.4g} {unit}, with {chosen.reserved_gpus} GPUs reserved."
    return Chart("line", "the bill by number reserved", "reserved GPUs", unit, (series,), tells)


def _demand_chart(demand: Demand, chosen: Mixed) -> Chart:
    """Hours sorted by what they need: the part of the time in which so many GPUs are needed."""
    ordered = sorted(demand.gpus, reverse=True)
    picked = [round(place * (len(ordered) - 1) / 100) for place in range(101)]
    shares = tuple(100 * place / max(1, len(ordered) - 1) for place in picked)
    lines = (
        Series("needed", shares, tuple(ordered[place] for place in picked)),
        Series("reserved", shares, (float(chosen.reserved_gpus),) * len(shares)),
    )
    tells = f"The peak hour needs {ordered[0]:.4g} GPUs, half of all hours {ordered[len(ordered) // 2]:.4g} or less."
    return Chart("line", "GPUs needed, hours sorted", "% of hours", "GPUs", lines, tells)
