"""Question 7, `add-tenant`: what one more tenant changes for everybody, or why it does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.capacity.money import invoice
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet
from experiments.whatif.arriving import arrivals_of
from experiments.whatif.asking import Asked, Priced, priced_of
from experiments.whatif.newcomer import Room, memory_of, room_of, with_newcomer
from experiments.whatif.numbers import mean_figure, plain, quantile_figure
from experiments.whatif.playing import Played, ground_of, oracle_of, play, team_of
from experiments.whatif.scoring import bills, completion, seconds_of_all
from experiments.whatif.standing import answered
from experiments.whatif.words import told

ASKS = "What does one more tenant change for everybody?"


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """The team without the newcomer and with it, by the same seeds."""

    name: str
    before: Played
    after: Played

    def finishes(self, played: Played, name: str) -> list[float]:
        """Hours from arrival to the end, of every play."""
        found = []
        for history in played.histories:
            record = next(each for each in history.records if each.job.name == name)
            assert record.completion_seconds is not None  # checked before
            found.append(record.completion_seconds / 3600)
        return found


def answer(asked: Asked) -> Answer:
    """The change in every tenant's finish, paired by seed; or the longest sequence that would be admitted."""
    priced = priced_of(asked)
    more, name = with_newcomer(asked)
    oracle = oracle_of(more, arrivals_of(more))
    room = room_of(more, oracle, name)
    if room is not None:
        return _refused(asked, more, name, room)
    both = Both(name, play(asked), play(more))
    for played in (both.before, both.after):
        for history in played.histories:
            seconds_of_all(history, completion)
    team = [offer.tenant.name for offer in asked.offers]
    ratios = {each: _ratio(both, each) for each in team}
    worst = max(ratios, key=lambda each: ratios[each].value or 0.0)
    finish = quantile_figure(f"finish of {name}", both.finishes(both.after, name), 0.5, "h")
    sentences = [_sentence(both, finish, ratios[worst], worst), _moves(both)]
    return answered(
        asked,
        [both.before.ground, both.after.ground],
        "told",
        sentences,
        asks=ASKS,
        figures=[finish, _wait(both), ratios[worst], *_hours(both), *_money(both, priced)],
        sheets=[_sheet(both, ratios)],
        charts=[_chart(ratios, name)],
        priced=priced,
    )


def _refused(asked: Asked, more: Asked, name: str, room: Room) -> Answer:
    """It fits nowhere, even alone."""
    where = memory_of(more.world.cluster)
    first = f"'{name}' does not fit: its sequences have up to {room.tokens} tokens; longest admissible on {where}: "
    needs = f"It needs {room.needs}." if room.needs else "No configuration that can be priced holds it."
    oracle = oracle_of(asked, arrivals_of(asked))
    return answered(
        asked,
        [ground_of(oracle, team_of(asked, oracle))],
        "infeasible",
        [f"{first}{room.admissible} tokens.", needs],
        asks=ASKS,
        figures=[
            plain("longest sequence of the newcomer", room.tokens, "tokens"),
            plain("longest admissible", room.admissible, "tokens"),
        ],
    )


def _ratio(both: Both, name: str) -> Figure:
    before, after = both.finishes(both.before, name), both.finishes(both.after, name)
    values = (np.array(after) / np.array(before)).tolist()
    return mean_figure(
        f"finish of {name}, with / without", values, "ratio", both.before.asked.seeds[0], "paired by seed"
    )


def _sentence(both: Both, finish: Figure, worst: Figure, name: str) -> str:
    assert finish.value is not None
    assert worst.value is not None
    change = 100 * (worst.value - 1)
    return (
        f"'{both.name}' fits and finishes after {finish.value:.3g} h; whom it delays most is '{name}', whose finish "
        f"changes by {change:+.2g} %."
    )


def _moves(both: Both) -> str:
    before, after = (
        sum(history.split.redeployment + history.split.planning for history in played.histories)
        / len(played.histories)
        / played.gpus
        for played in (both.before, both.after)
    )
    return f"Planning and re-deployments hold everybody up for {told(after)} a play, {told(before)} without it."


def _wait(both: Both) -> Figure:
    found = []
    for history in both.after.histories:
        record = next(each for each in history.records if each.job.name == both.name)
        found.append((record.wait_seconds or 0.0) / 3600)
    return quantile_figure(f"wait of {both.name}", found, 0.5, "h")


def _hours(both: Both) -> list[Figure]:
    hours = [
        np.array([history.seconds * history.gpus / 3600 for history in played.histories])
        for played in (both.before, both.after)
    ]
    return [mean_figure("GPU hours more", (hours[1] - hours[0]).tolist(), "GPU h", both.before.asked.seeds[0])]


def _money(both: Both, priced: Priced | None) -> list[Figure]:
    if priced is None:
        return []
    paid = [
        np.array([invoice(bill, played.gpus, priced.price, priced.book).total for bill in bills(played)])
        for played in (both.before, both.after)
    ]
    return [mean_figure("bill more", (paid[1] - paid[0]).tolist(), priced.book.currency, both.before.asked.seeds[0])]


def _sheet(both: Both, ratios: dict[str, Figure]) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for name, ratio in ratios.items():
        middles = [float(np.median(both.finishes(played, name))) for played in (both.before, both.after)]
        rows.append((name, *middles, ratio.value, ratio.low, ratio.high))
    rows.append((both.name, None, float(np.median(both.finishes(both.after, both.name))), None, None, None))
    return Sheet("finish by tenant", ("tenant", "without h", "with h", "ratio", "low", "high"), tuple(rows))


def _chart(ratios: dict[str, Figure], name: str) -> Chart:
    series = Series(
        "with / without",
        tuple(ratios),
        tuple(each.value for each in ratios.values()),
        tuple(each.low for each in ratios.values()),
        tuple(each.high for each in ratios.values()),
    )
    return Chart(
        "bar", f"finish with '{name}' over without", "tenant", "ratio", (series,), _tells(list(ratios.values()))
    )


def _tells(figures: Sequence[Figure]) -> str:
    values = [each.value or 0.0 for each in figures]
    return f"finishes change to {min(values):.3g} to {max(values):.3g} times what they were"
