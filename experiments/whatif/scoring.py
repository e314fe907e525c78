"""What the plays of a question come to: when tenants finish, what they wait, what they pay, where GPU hours go."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.capacity.accounting import Bill
from experiments.capacity.composing import Plays, bill_of
from experiments.capacity.weights import weights
from experiments.whatif.answer import Figure
from experiments.whatif.numbers import LEAST, mean_figure, quantile_figure
from experiments.whatif.playing import Played
from lobra.errors import Infeasible
from sim.fleet.nouns import Record, Split

Timed = Callable[[Record], float | None]


@dataclass(frozen=True, slots=True)
class Decided:
    """A promise against what was played."""

    figure: Figure  # the p95 that was promised
    limit: float  # seconds
    kept: bool | None  # None: undecided

    @property
    def word(self) -> str:
        """For sentences."""
        return {True: "kept", False: "broken", None: "undecided"}[self.kept]


def completion(record: Record) -> float | None:
    """Seconds from arrival to the last step."""
    return record.completion_seconds


def wait(record: Record) -> float | None:
    """Seconds from arrival to the first step."""
    return record.wait_seconds


def seconds_of_all(history: Plays, timed: Timed) -> list[float]:
    """Of every tenant of a play; Infeasible where one never got there: it waits in vain."""
    values = []
    for record in history.records:
        value = timed(record)
        if value is None:
            raise Infeasible(
                f"tenant '{record.job.name}' is never served to its end beside the others under these rules of "
                "admission; give more GPUs, or loosen churn.admit"
            )
        values.append(value)
    return values


def promised(played: Played, timed: Timed, name: str) -> Figure:
    """The p95 that a promise is about, in seconds.

    A team that comes together: of the tenant that is last in each play, over the plays; a stream: the p95 over the
    tenants of each play, on average over the plays.
    """
    each = [seconds_of_all(history, timed) for history in played.histories]
    if played.asked.config.arrivals.kind == "together":
        return quantile_figure(name, [max(values) for values in each], 0.95, "s")
    tails = [float(np.quantile(values, 0.95, method="higher")) for values in each]
    return mean_figure(name, tails, "s", played.asked.seeds[0], "p95 over the tenants of a play, mean of the plays")


def decided(figure: Figure, limit: float) -> Decided:
    """Kept where the whole interval is within the limit, broken where none of it is, else undecided."""
    if figure.high is not None and figure.high <= limit:
        return Decided(figure, limit, True)
    if figure.low is not None and figure.low > limit:
        return Decided(figure, limit, False)
    return Decided(figure, limit, None)


def promises(played: Played) -> Iterator[Decided]:
    """Every promise that was asked for."""
    promise = played.asked.promise
    if promise.finish_p95 is not None:
        yield decided(promised(played, completion, "finish p95"), promise.finish_p95)
    if promise.wait_p95 is not None:
        yield decided(promised(played, wait, "wait p95"), promise.wait_p95)


def last_tenant(played: Played) -> str:
    """Who is last in most plays."""
    counts: dict[str, int] = {}
    for history in played.histories:
        name = max(history.records, key=lambda record: record.completion_seconds or math.inf).job.name
        counts[name] = counts.get(name, 0) + 1
    return max(sorted(counts), key=counts.__getitem__)


def mean_split(played: Played) -> Split:
    """GPU hours of a play by what they were spent on, on average."""
    total = Split()
    for history in played.histories:
        total = total.plus(history.split)
    count = 3600 * len(played.histories)
    return Split(*(value / count for value in total))


def bills(played: Played) -> tuple[Bill, ...]:
    """Of every play, by the rule of accounting."""
    oracle, rule = played.oracle, played.asked.rule
    known = weights(oracle, rule)
    return tuple(bill_of(history, oracle, rule, known) for history in played.histories)


def useful_tokens(history: Plays) -> float:
    """That all tenants trained."""
    return math.fsum(record.tokens for record in history.records)


def enough(played: Played) -> bool:
    """Whether the plays can bear an interval of a mean."""
    return len(played.histories) >= LEAST
