"""Question 11, `sensitivity`: which assumption matters most, and whether the decision flips.

Each assumption is taken lower and higher by the same part, one at a time, everything else and all seeds as they are;
plans are made anew. `of=run` asks when all have finished and whether the promise is kept, `of=min-gpus` how many GPUs
it takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.whatif import min_gpus
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet
from experiments.whatif.asking import Asked
from experiments.whatif.numbers import plain
from experiments.whatif.playing import Ground, play
from experiments.whatif.run import verdict_of
from experiments.whatif.scoring import completion, promises, seconds_of_all
from experiments.whatif.standing import answered
from experiments.whatif.varied import WORDS, change_of, usual
from lobra.errors import BadInput, Infeasible

ASKS = "Which assumption matters most, and does the decision flip?"
MEASURES = {"run": ("all finished, p50", "h"), "min-gpus": ("smallest number of GPUs", "GPUs")}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is decided under one set of assumptions."""

    value: float | None  # of the measure; None: there is none
    word: str  # the decision
    grounds: tuple[Ground, ...] = ()


@dataclass(frozen=True, slots=True)
class Swing:
    """One assumption, lower and higher."""

    name: str
    low: Outcome
    high: Outcome

    def width(self, base: float) -> float:
        """How far apart both ends are, as a part of the base; an end without a value counts as twice the base."""
        ends = [2 * base if end.value is None else end.value for end in (self.low, self.high)]
        return (max(*ends, base) - min(*ends, base)) / base


def answer(asked: Asked) -> Answer:
    """A tornado: the widest swing first."""
    config = asked.config
    if config.of not in MEASURES:
        raise BadInput(f"of is {config.of!r}; choose {', '.join(MEASURES)}")
    if not 0 < config.by < 1:
        raise BadInput(f"by is {config.by}; it is a part, above 0 and below 1, such as 0.1")
    names = tuple(config.vary) or usual(asked)
    changes = [(name, change_of(name)) for name in names]
    outcome = _outcome(asked)
    if outcome.value is None:
        raise Infeasible(f"sensitivity: there is nothing to vary about; `lobra whatif {config.of}` says why")
    swings = [
        Swing(name, *(_tried(change(asked, factor)) for factor in (1 - config.by, 1 + config.by)))
        for name, change in changes
    ]
    middle = outcome.value
    swings.sort(key=lambda swing: (-swing.width(middle), swing.name))
    flips = [swing for swing in swings if {swing.low.word, swing.high.word} != {outcome.word}]
    measure, unit = MEASURES[config.of]
    return answered(
        asked,
        outcome.grounds,
        "told",
        _sentences(swings, flips, outcome, config.by, measure),
        asks=ASKS,
        figures=[plain(measure, middle, unit), *_figures(swings, middle)],
        sheets=[_sheet(swings, middle, unit)],
        charts=[_chart(swings, middle, measure, unit, config.by)],
    )


def _tried(asked: Asked) -> Outcome:
    try:
        return _outcome(asked)
    except Infeasible:
        return Outcome(None, "infeasible")


def _outcome(asked: Asked) -> Outcome:
    """The measure and the decision; Infeasible where somebody fits nowhere."""
    if asked.config.of == "min-gpus":
        found = min_gpus.search(asked)
        return Outcome(found.smallest, f"{found.smallest} GPUs" if found.smallest else found.verdict, found.grounds)
    played = play(asked)
    ends = [max(seconds_of_all(history, completion)) / 3600 for history in played.histories]
    return Outcome(float(np.median(ends)), verdict_of(tuple(promises(played))), (played.ground,))


def _sentences(swings: Sequence[Swing], flips: Sequence[Swing], outcome: Outcome, by: float, measure: str) -> list[str]:
    assert outcome.value is not None
    first = swings[0]
    width = 100 * first.width(outcome.value)
    what = f"{100 * by:g} % of it ({WORDS[first.name]})"
    lines = [f"'{first.name}' matters most: {what} up and down swings '{measure}' by {width:.3g} %."]
    if outcome.word == "told":
        lines.append("Nothing was promised (slo.*), so no decision can flip.")
    elif flips:
        changed = ", ".join(f"{swing.name} ({swing.low.word} / {swing.high.word})" for swing in flips)
        lines.append(f"The decision, {outcome.word}, flips with: {changed}.")
    else:
        lines.append(f"The decision, {outcome.word}, does not flip with any of them.")
    return lines


def _figures(swings: Sequence[Swing], middle: float) -> list[Figure]:
    return [plain(f"swing by {swing.name}", 100 * swing.width(middle), "%") for swing in swings]


def _sheet(swings: Sequence[Swing], middle: float, unit: str) -> Sheet:
    rows: list[tuple[Cell, ...]] = [
        (
            swing.name,
            swing.low.value,
            middle,
            swing.high.value,
            100 * swing.width(middle),
            swing.low.word,
            swing.high.word,
            WORDS[swing.name],
        )
        for swing in swings
    ]
    columns = ("assumption", f"lower {unit}", f"as it is {unit}", f"higher {unit}", "swing %", "if lower", "if higher")
    return Sheet("by assumption", (*columns, "what is varied"), tuple(rows))


def _chart(swings: Sequence[Swing], middle: float, measure: str, unit: str, by: float) -> Chart:
    names = tuple(swing.name for swing in swings)
    series = (
        Series(f"-{100 * by:g} %", names, tuple(swing.low.value for swing in swings)),
        Series(f"+{100 * by:g} %", names, tuple(swing.high.value for swing in swings)),
        Series("as it is", names, (middle,) * len(names)),
    )
    tells = f"{measure} with each assumption lower and higher by {100 * by:g} %; {names[0]} swings it most"
    return Chart("tornado", f"{measure}, one assumption at a time", unit, "assumption", series, tells)
