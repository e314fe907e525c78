"""Question 9, `price`: what must be charged for a million tokens, and from which utilisation on a market price pays.

Cost is the bill of the whole team, idle time and padding included, over its useful tokens; the margin is a part of the
price. The bill is divided among lengths as `work` divides it among tenants: by what a sequence takes at its cheapest
feasible shape. The ideal is the GPU at the given part of its peak with nothing lost (`capacity.ideal`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.capacity.ideal import break_even, efficiency, ideal_per_million, to_charge, tokens_per_second
from experiments.capacity.money import Invoice, caveats, invoice, per_million
from experiments.capacity.oracle import Oracle
from experiments.capacity.weights import cheapest_each
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet, Verdict
from experiments.whatif.asking import Asked, Priced, priced_of
from experiments.whatif.numbers import plain, spread_figure
from experiments.whatif.playing import Played, play, team_of
from experiments.whatif.scoring import bills, useful_tokens
from experiments.whatif.standing import answered
from lobra.errors import BadInput
from lobra.spec import positive

ASKS = "What must be charged for a million tokens?"
EDGES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 1 << 62)  # tokens of a sequence, at most


@dataclass(frozen=True, slots=True)
class Lengths:
    """Sequences of one class of lengths, of all tenants."""

    upto: int
    tokens: float  # useful, a planning batch
    gpu_seconds: float  # at their cheapest shapes


def answer(asked: Asked) -> Answer:
    """What to charge by tenant and by length, and what the market's price leaves."""
    priced, selling = priced_of(asked), asked.config.selling
    if priced is None:
        raise BadInput("prices: a value is missing; price needs them, give prices=2026-11 or a file of your own")
    for at in selling.market:
        positive("selling", market=at)
    to_charge(1.0, selling.margin)  # refuses a margin that is none before anything is played
    ideal = tokens_per_second(asked.world.model.parameters, asked.world.cluster.gpu.teraflops, selling.utilisation)
    played = play(asked)
    invoices = [invoice(bill, played.gpus, priced.price, priced.book) for bill in bills(played)]
    tokens = [useful_tokens(history) for history in played.histories]
    costs = [per_million(bill.total, count) for bill, count in zip(invoices, tokens, strict=True)]
    cost = spread_figure("cost of tokens", costs, _unit(priced))
    used = [_efficiency(bill, count, ideal) for bill, count in zip(invoices, tokens, strict=True)]
    margins = [_margin(costs, at) for at in selling.market]
    charge = spread_figure("to charge", [to_charge(each, selling.margin) for each in costs], _unit(priced))
    floor = ideal_per_million(priced.price.per_gpu_hour, ideal)
    return answered(
        asked,
        [played.ground],
        _verdict(margins),
        [*_sentences(cost, charge, selling.margin, used), *_market(selling.market, margins, floor, priced)]
        + [f"{line}." for line in caveats(invoices[0], played.ground.basis)],
        asks=ASKS,
        figures=[charge, cost, *_figures(asked, priced, used, ideal, floor), *margins],
        sheets=[_lengths_sheet(played, cost, selling.margin, priced), _tenant_sheet(played, invoices, priced)],
        charts=[_chart(played, cost, selling.margin, selling.market, priced)],
        priced=priced,
    )


def lengths_of(oracle: Oracle, played: Played) -> tuple[Lengths, ...]:
    """Tokens and cheapest GPU seconds of the team's planning batches, by class of length."""
    kinds = team_of(played.asked, oracle)
    plan, judge = oracle.plan(kinds), oracle.judge(kinds)
    tokens, seconds = np.zeros(len(EDGES)), np.zeros(len(EDGES))
    for batch in judge.batches:
        buckets = judge.batching.bucket(batch, plan, judge.cost)
        for bucket, each in zip(buckets, cheapest_each(oracle, plan, buckets), strict=True):
            places = np.searchsorted(EDGES, bucket.sequences.length)
            tokens += np.bincount(places, weights=bucket.sequences.length, minlength=len(EDGES))
            seconds += np.bincount(places, minlength=len(EDGES)) * each
    count = len(judge.batches)
    return tuple(
        Lengths(edge, float(some) / count, float(took) / count)
        for edge, some, took in zip(EDGES, tokens, seconds, strict=True)
        if some > 0
    )


def by_length(classes: Sequence[Lengths], cost_per_million: float) -> dict[int, float]:
    """The cost of a million tokens of each class; weighed by tokens, they are the cost of all."""
    whole = math.fsum(each.gpu_seconds for each in classes) / math.fsum(each.tokens for each in classes)
    return {each.upto: cost_per_million * each.gpu_seconds / each.tokens / whole for each in classes}


def _unit(priced: Priced) -> str:
    return f"{priced.book.currency}/million useful"


def _efficiency(bill: Invoice, tokens: float, ideal: float) -> float:
    return 100 * efficiency(tokens, bill.billed_gpus * bill.hours * 3600, ideal)


def _margin(costs: Sequence[float], market: float) -> Figure:
    """What is left of this price, in per cent of it."""
    return spread_figure(f"margin at {market:g}", [100 * (1 - cost / market) for cost in costs], "%")


def _verdict(margins: Sequence[Figure]) -> Verdict:
    if not margins:
        return "told"
    if any(each.low is None or each.high is None for each in margins):
        return "undecided"
    if all((each.low or 0.0) > 0 for each in margins):
        return "yes"
    return "no" if all((each.high or 0.0) < 0 for each in margins) else "undecided"


def _figures(asked: Asked, priced: Priced, used: Sequence[float], ideal: float, floor: float) -> list[Figure]:
    share = asked.config.selling.utilisation
    note = f"4 operations a parameter and token, {share:.0%} of the peak"
    return [
        spread_figure("fleet efficiency", used, "%", "useful tokens over the ideal of the billed GPU hours"),
        plain("ideal rate", ideal, "tokens/s a GPU", note),
        plain("ideal cost", floor, _unit(priced), note),
        *(
            plain(f"break-even efficiency at {at:g}", 100 * break_even(floor, at), "%")
            for at in asked.config.selling.market
        ),
    ]


def _sentences(cost: Figure, charge: Figure, margin: float, used: Sequence[float]) -> list[str]:
    low, high = (0.0 if each is None else each for each in (charge.low, charge.high))
    between = f" ({low:.3g} to {high:.3g})" if charge.low is not None else ""
    parts = f"they cost {cost.value or 0:.3g}, and {margin:.0%} of the price is margin"
    return [
        f"Charge {charge.value or 0:.3g} {charge.unit} tokens{between}: {parts}.",
        f"The fleet trains {float(np.median(used)):.3g} % of what its billed GPU hours could at the ideal rate.",
    ]


def _market(market: Sequence[float], margins: Sequence[Figure], floor: float, priced: Priced) -> list[str]:
    unit = priced.book.currency
    return [
        f"At a market price of {at:g} {unit} the margin is {each.value or 0:.3g} %; the GPUs are paid for from an "
        f"efficiency of {100 * break_even(floor, at):.3g} % on."
        for at, each in zip(market, margins, strict=True)
    ]


def _charged(played: Played, cost: Figure, margin: float) -> Mapping[int, float]:
    found = by_length(lengths_of(played.oracle, played), cost.value or 0.0)
    return {upto: to_charge(each, margin) for upto, each in found.items()}


def _lengths_sheet(played: Played, cost: Figure, margin: float, priced: Priced) -> Sheet:
    classes = lengths_of(played.oracle, played)
    whole = math.fsum(each.tokens for each in classes)
    costs, charged = by_length(classes, cost.value or 0.0), _charged(played, cost, margin)
    rows: list[tuple[Cell, ...]] = [
        (_class(each.upto), 100 * each.tokens / whole, costs[each.upto], charged[each.upto]) for each in classes
    ]
    unit = f"{priced.book.currency}/Mtok"
    model = played.asked.world.model.name
    return Sheet(
        f"by length, {model}", ("tokens of a sequence", "% of tokens", f"cost {unit}", f"charge {unit}"), tuple(rows)
    )


def _tenant_sheet(played: Played, invoices: Sequence[Invoice], priced: Priced) -> Sheet:
    """Of every tenant, or of all of one kind: its part of the bill over its tokens, the median play."""
    each: dict[str, list[float]] = {}
    for bill, history in zip(invoices, played.histories, strict=True):
        money, tokens = dict[str, float](), dict[str, float]()
        shares = {share.tenant: share.total for share in bill.shares}
        for record in history.records:
            kind = played.oracle.kind_of[record.job.name]
            money[kind] = money.get(kind, 0.0) + shares.get(record.job.name, 0.0)
            tokens[kind] = tokens.get(kind, 0.0) + record.tokens
        for kind, paid in money.items():
            if tokens[kind] > 0:
                each.setdefault(kind, []).append(per_million(paid, tokens[kind]))
    rows: list[tuple[Cell, ...]] = []
    for name, values in sorted(each.items()):
        figure = spread_figure(name, values, "")
        rows.append((name, figure.value, figure.low, figure.high))
    return Sheet("by tenant", ("tenant", f"cost {priced.book.currency}/Mtok", "low", "high"), tuple(rows))


def _chart(played: Played, cost: Figure, margin: float, market: Sequence[float], priced: Priced) -> Chart:
    charged = _charged(played, cost, margin)
    names, values = tuple(_class(upto) for upto in charged), tuple(charged.values())
    series = [Series("to charge", names, values)]
    series += [Series(f"market {at:g}", names, (at,) * len(names)) for at in market]
    tells = f"From {min(values):.3g} to {max(values):.3g} {priced.book.currency} by the length of a sequence."
    unit = f"{priced.book.currency} for a million tokens"
    return Chart("bar", "what to charge by length", "tokens of a sequence", unit, tuple(series), tells)


def _class(upto: int) -> str:
    return "longer" if upto == EDGES[-1] else f"up to {upto}"
