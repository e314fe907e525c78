"""Question 1, `run`: what these tenants take on this cluster, and when each finishes."""

import math
from collections.abc import Sequence

import numpy as np

from experiments.capacity.accounting import Bill
from experiments.capacity.composing import Plays
from experiments.capacity.money import Invoice, caveats, invoice, per_million
from experiments.whatif.answer import Answer, Figure, Verdict
from experiments.whatif.arriving import trace_of
from experiments.whatif.asking import Asked, Priced, priced_of
from experiments.whatif.drawn import plan_sheet, split_chart, split_sheet, timeline
from experiments.whatif.fairness import core_of, fairness_sheet
from experiments.whatif.numbers import mean_figure, plain, quantile_figure, spread_figure
from experiments.whatif.playing import Played, play
from experiments.whatif.scoring import (
    Decided,
    bills,
    completion,
    last_tenant,
    mean_split,
    promises,
    seconds_of_all,
    useful_tokens,
    wait,
)
from experiments.whatif.standing import answered
from experiments.whatif.tenantwise import finish_chart, rows_of, tenant_sheet
from experiments.whatif.words import told
from lobra.plan import DeploymentPlan

ASKS = "What do these tenants take on this cluster, and when does each finish?"


def answer(asked: Asked) -> Answer:
    """Plays every seed and tells of every tenant; with a promise, whether it is kept."""
    priced = priced_of(asked)
    played = play(asked)
    for history in played.histories:
        seconds_of_all(history, completion)  # refuses where somebody is never served
    paid = bills(played)
    invoices = [invoice(bill, played.gpus, priced.price, priced.book) for bill in paid] if priced else []
    rows = rows_of(played, paid, invoices)
    split, kept = mean_split(played), list(promises(played))
    plan, jobs = first_plan(played.histories[0])
    kinds = played.oracle.kinds(jobs)
    return answered(
        asked,
        [played.ground],
        verdict_of(kept),
        [*_sentences(played, kept), core_of(played, paid[0]), *_money(played, priced, invoices), *_trace(asked)],
        asks=ASKS,
        figures=[*totals(played, paid), *dollars(played, priced, invoices)],
        sheets=[
            tenant_sheet(rows, priced.book.currency if priced else None),
            fairness_sheet(played, paid[0]),
            split_sheet(split),
            plan_sheet(plan, f"first plan, for {len(jobs)} tenants"),
        ],
        charts=[
            finish_chart(rows),
            split_chart({f"{played.gpus} GPUs": split}),
            timeline(played.oracle, kinds, plan),
        ],
        priced=priced,
    )


def verdict_of(kept: Sequence[Decided]) -> Verdict:
    """Of all promises together."""
    if not kept:
        return "told"
    if any(each.kept is False for each in kept):
        return "infeasible"
    return "feasible" if all(each.kept for each in kept) else "undecided"


def first_plan(history: Plays) -> tuple[DeploymentPlan, tuple[str, ...]]:
    """The plan on which training begins, and who trains then."""
    interval = next(each for each in history.intervals if each.phase == "train")
    assert interval.plan is not None  # who trains has a plan
    return interval.plan, interval.jobs


def totals(played: Played, paid: Sequence[Bill]) -> list[Figure]:
    """Of the whole fleet."""
    histories = played.histories
    useful = [100 * history.split.useful / history.split.total for history in histories]
    idle = [100 * history.split.idle / history.split.total for history in histories]
    moves = math.fsum(history.moves - 1 for history in histories) / len(histories)
    rates = [useful_tokens(history) / history.seconds for history in histories]
    return [
        *(_of_team(played) if played.asked.config.arrivals.kind == "together" else _of_stream(played)),
        spread_figure("GPU hours", [bill.total / 3600 for bill in paid], "GPU h"),
        spread_figure("GPU hours that train", useful, "%"),
        spread_figure("GPU hours idle", idle, "%"),
        spread_figure("useful tokens", rates, "tokens/s"),
        plain("re-deployments after the first", moves, "a play"),
    ]


def _of_team(played: Played) -> list[Figure]:
    ends = [history.seconds / 3600 for history in played.histories]
    return [
        quantile_figure("all finished, p50", ends, 0.5, "h"),
        quantile_figure("all finished, p95", ends, 0.95, "h"),
    ]


def _of_stream(played: Played) -> list[Figure]:
    """Of each play's tenants; what comes first is not left out, the fleet begins empty."""
    count, seed = "mean over plays", played.asked.seeds[0]
    rows = [
        (name, [float(np.quantile(seconds_of_all(each, timed), share)) / 3600 for each in played.histories])
        for name, timed, share in (
            ("finish, p50 of the tenants", completion, 0.5),
            ("finish, p95 of the tenants", completion, 0.95),
            ("wait, p95 of the tenants", wait, 0.95),
        )
    ]
    tenants = [float(len(history.records)) for history in played.histories]
    return [
        mean_figure("tenants", tenants, "a play", seed),
        *(mean_figure(name, values, "h", seed, count) for name, values in rows),
    ]


def dollars(played: Played, priced: Priced | None, invoices: Sequence[Invoice]) -> list[Figure]:
    """Of the whole fleet; none where no prices were given."""
    if priced is None:
        return []
    unit = priced.book.currency
    tokens = [useful_tokens(history) for history in played.histories]
    each = [per_million(bill.total, count) for bill, count in zip(invoices, tokens, strict=True)]
    return [
        spread_figure("bill", [bill.total for bill in invoices], unit),
        spread_figure("cost of tokens", each, f"{unit}/million useful"),
        spread_figure("declared idle", [bill.idle.total for bill in invoices], unit),
    ]


def _sentences(played: Played, kept: Sequence[Decided]) -> list[str]:
    together = played.asked.config.arrivals.kind == "together"
    return [
        _team(played) if together else _stream(played),
        *(
            f"{each.figure.name} of {told(each.limit)} is {each.word}: {told(each.figure.value or 0.0)}."
            for each in kept
        ),
    ]


def _team(played: Played) -> str:
    middle, tail = _of_team(played)
    most = "" if tail.high is None else f" (at most {tail.high:.3g} h)"
    who = f"{len(played.asked.offers)} tenants on {played.gpus} GPUs"
    when = f"after {middle.value or 0:.3g} h at the median, {tail.value or 0:.3g} h at p95{most}"
    return f"{who}: all have finished {when}; {last_tenant(played)} is last most often."


def _stream(played: Played) -> str:
    tenants, middle, tail, waits = (each.value or 0.0 for each in _of_stream(played))
    who = f"{tenants:.3g} tenants of {len(played.asked.offers)} kinds a play on {played.gpus} GPUs"
    return (
        f"{who}: they finish {middle:.3g} h after they come at the median, {tail:.3g} h at p95; wait p95 {waits:.3g} h."
    )


def _money(played: Played, priced: Priced | None, invoices: Sequence[Invoice]) -> list[str]:
    if priced is None:
        return []
    total = spread_figure("", [bill.total for bill in invoices], "")
    said = f"It costs {total.value:.4g} {priced.book.currency} at {priced.price.provider}"
    return [f"{said}.", *(f"{line}." for line in caveats(invoices[0], played.ground.basis))]


def _trace(asked: Asked) -> list[str]:
    return trace_of(asked)[1].text() if asked.config.arrivals.kind == "trace" else []
