"""Question 5, `compare`: what joint training saves against one tenant after another, or plain fusing.

All policies play the same seeds: the same arrivals and budgets, prices of work off by the same factors. Ratios are
paired by seed. A policy that trains one tenant after another deploys each on the whole cluster in turn, in the order of
arrival, and re-deploys between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.build import build_policy
from experiments.composing import policy_configs
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet
from experiments.whatif.asking import Asked, with_policy
from experiments.whatif.drawn import split_chart
from experiments.whatif.numbers import mean_figure, quantile_figure, spread_figure
from experiments.whatif.playing import Played, play
from experiments.whatif.scoring import completion, mean_split, seconds_of_all
from experiments.whatif.standing import answered
from lobra.errors import BadInput, Infeasible
from policies.grouping import OneByOne, Together

ASKS = "How much does joint training save against one tenant after another, or plain fusing?"
USUAL = ("task_sequential", "task_fused", "lobra")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A policy and its plays."""

    name: str
    played: Played | None
    reason: str = ""  # why there are none

    @property
    def gpu_hours(self) -> list[float]:
        """Of every play."""
        assert self.played is not None
        return [history.seconds * history.gpus / 3600 for history in self.played.histories]


def answer(asked: Asked) -> Answer:
    """Ratios of GPU hours and of the last finish, the last policy over each other one."""
    names = asked.config.policies if asked.config.policies is not None else list(USUAL)
    if len(names) < 2:
        raise BadInput(f"policies is {list(names)}; name two at least, the one in question last")
    sides = [_side(asked, name) for name in names]
    known = [side for side in sides if side.played is not None]
    last = sides[-1]
    if last.played is None or len(known) < 2:
        failed = "; ".join(f"{side.name}: {side.reason}" for side in sides if side.played is None)
        raise Infeasible(f"compare: there is nothing to compare {last.name} with: {failed}")
    ratios = [(side, _ratio(last, side), _finish_ratio(last, side)) for side in known if side is not last]
    splits = {side.name: mean_split(side.played) for side in known if side.played is not None}
    return answered(
        asked,
        [side.played.ground for side in known if side.played is not None],
        "told",
        [*(_sentence(last, *each) for each in ratios), *_failed(sides)],
        asks=ASKS,
        figures=[figure for _, *both in ratios for figure in both],
        sheets=[_sheet(sides)],
        charts=[split_chart(splits), _chart(ratios, last)],
    )


def _side(asked: Asked, name: str) -> Side:
    """One policy by itself: its own parts, planned as quickly as the policy that was asked with."""
    config = policy_configs([name], asked.config.plans)[name]
    for part, given in (("deployment", asked.config.policy.deployment), ("dispatch", asked.config.policy.dispatch)):
        mine = getattr(config, part)
        if type(mine) is type(given):
            setattr(config, part, given)
        elif part == "deployment" and hasattr(mine, "batches"):
            setattr(config, part, replace(mine, batches=given.batches))
    policy = build_policy(config, asked.config.seed)
    mine = with_policy(asked, policy)
    if isinstance(policy.grouping, OneByOne):
        churn = mine.config.churn
        mine = replace(
            mine,
            config=replace(mine.config, churn=replace(churn, rule="on_change", admit=replace(churn.admit, most=1))),
        )
    elif not isinstance(policy.grouping, Together):
        raise BadInput(f"policies: {name} groups tenants in a way that no fleet plays; choose another")
    try:
        played = play(mine)
        for history in played.histories:
            seconds_of_all(history, completion)
    except Infeasible as error:
        return Side(name, None, str(error))
    return Side(name, played)


def _ratio(one: Side, other: Side) -> Figure:
    values = np.array(one.gpu_hours) / np.array(other.gpu_hours)
    return _paired(f"GPU hours, {one.name} / {other.name}", values.tolist(), one)


def _finish_ratio(one: Side, other: Side) -> Figure:
    values = [mine / its for mine, its in zip(_means(one), _means(other), strict=True)]
    return _paired(f"mean finish, {one.name} / {other.name}", values, one)


def _means(side: Side) -> list[float]:
    assert side.played is not None
    return [float(np.mean(seconds_of_all(history, completion))) for history in side.played.histories]


def _paired(name: str, values: list[float], side: Side) -> Figure:
    assert side.played is not None
    return mean_figure(name, values, "ratio", side.played.asked.seeds[0], "paired by seed")


def excludes_one(figure: Figure) -> bool | None:
    """Whether the interval lies on one side of 1; None where there is none."""
    if figure.low is None or figure.high is None:
        return None
    return figure.high < 1 or figure.low > 1


def _sentence(last: Side, other: Side, hours: Figure, finish: Figure) -> str:
    assert hours.value is not None
    saves = 100 * (1 - hours.value)
    sure = {True: "the interval excludes 1", False: "the interval holds 1: not separable", None: "no interval"}
    told = f"{last.name} takes {hours.value:.3f} of the GPU hours of {other.name} ({saves:+.1f} % saved"
    return (
        f"{told}; {sure[excludes_one(hours)]}), and its tenants finish after {finish.value:.3f} of the time on average."
    )


def _failed(sides: Sequence[Side]) -> list[str]:
    return [f"{side.name} cannot serve them: {side.reason}." for side in sides if side.played is None]


def _sheet(sides: Sequence[Side]) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for side in sides:
        if side.played is None:
            rows.append((side.name, *[None] * 6, side.reason))
            continue
        ends = [max(seconds_of_all(history, completion)) / 3600 for history in side.played.histories]
        hours, split = spread_figure("GPU hours", side.gpu_hours, "GPU h"), mean_split(side.played)
        end = quantile_figure("all finished", ends, 0.5, "h")
        shares = (100 * part / split.total for part in (split.useful, split.padding, split.idle))
        rows.append((side.name, hours.value, end.value, float(np.mean(_means(side))) / 3600, *shares, ""))
    columns = ("policy", "GPU h", "all finished p50 h", "mean finish h", "useful %", "padding %", "idle %", "note")
    return Sheet("by policy", columns, tuple(rows))


def _chart(ratios: Sequence[tuple[Side, Figure, Figure]], last: Side) -> Chart:
    names = tuple(side.name for side, _, _ in ratios)
    figures = [hours for _, hours, _ in ratios]
    series = Series(
        "GPU hours",
        names,
        tuple(each.value for each in figures),
        tuple(each.low for each in figures),
        tuple(each.high for each in figures),
    )
    told = ", ".join(f"{each.value or 0:.3g} of {name}" for name, each in zip(names, figures, strict=True))
    return Chart(
        "bar", f"GPU hours of {last.name} over each other policy", "", "ratio", (series,), f"{last.name}: {told}"
    )
