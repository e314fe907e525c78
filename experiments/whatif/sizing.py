"""The same team on clusters of other sizes: what is tried, what each size gives, and what no size can beat."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.capacity.composing import jobs_of
from experiments.capacity.money import invoice
from experiments.capacity.weights import weights
from experiments.whatif.answer import Cell, Chart, Figure, Series, Sheet
from experiments.whatif.arriving import arrivals_of
from experiments.whatif.asking import Asked, Priced, resized
from experiments.whatif.numbers import quantile_figure, spread_figure
from experiments.whatif.playing import Ground, Played, factors_of, ground_of, oracle_of, play, team_of
from experiments.whatif.scoring import bills, completion, promised, seconds_of_all
from lobra.errors import BadInput, Infeasible

LARGEST = 1024  # GPUs; planning beyond takes minutes


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One size of the cluster."""

    gpus: int
    played: Played | None  # None: some tenant fits nowhere
    reason: str = ""  # why not
    end: Figure | None = None  # hours until all have finished, p50
    finish: Figure | None = None  # hours, p95 of what a promise is about
    gpu_hours: Figure | None = None
    money: Figure | None = None  # None without prices


@dataclass(frozen=True, slots=True)
class Bound:
    """What the work of the tenants takes at the least."""

    gpus: int  # fewer cannot finish in time in any play
    gpu_hours: float  # in the play with the least


def sizes_of(asked: Asked, least: int) -> tuple[int, ...]:
    """Sizes to try, ascending: those given, or every multiple of the granularity from `least` up to sizes.most."""
    wanted = asked.config.sizes
    if wanted.only:
        if min(wanted.only) < 1 or max(wanted.only) > LARGEST:
            raise BadInput(f"sizes.only is {list(wanted.only)}; give numbers of GPUs from 1 to {LARGEST}")
        return tuple(sorted(set(wanted.only)))
    if not 1 <= wanted.most <= LARGEST:
        raise BadInput(f"sizes.most is {wanted.most}; give a number of GPUs from 1 to {LARGEST}")
    unit = unit_of(asked)
    begin = max(unit, -(-least // unit) * unit)
    if wanted.least is not None:
        if not 1 <= wanted.least <= wanted.most:
            raise BadInput(f"sizes.least is {wanted.least}; give a number of GPUs from 1 to sizes.most, {wanted.most}")
        begin = max(begin, -(-wanted.least // unit) * unit)
    return tuple(range(begin, wanted.most + 1, unit))


def unit_of(asked: Asked) -> int:
    """GPUs that are added at a time."""
    cluster = asked.config.cluster
    return cluster.gpus_per_node if cluster.granularity == "node" else 1


def work_bound(asked: Asked, limit_seconds: float) -> Bound:
    """GPUs below which even the cheapest shapes of every sequence take too long, in every play.

    Each sequence at its cheapest feasible shape on the largest cluster that may be tried, nothing lost: no policy and
    no placement finishes with less. Only for a team that comes together, for a stream has no common end.
    """
    largest = resized(asked, max(asked.config.sizes.only, default=asked.config.sizes.most))
    arrivals = arrivals_of(largest)
    oracle = oracle_of(largest, arrivals)
    oracle.refuse_unservable()
    factors = factors_of(largest, ground_of(oracle, team_of(largest, oracle)))
    names = tuple(offer.tenant.name for offer in asked.offers)
    takes = weights(oracle, "work")(names)
    each, lengths = [], dict[str, float]()
    for some, factor in zip(arrivals, factors, strict=True):
        jobs = jobs_of(some, oracle.world.workload, asked.sizes, lengths)
        each.append(factor * math.fsum(job.steps * takes[job.name] for job in jobs))
    least = min(each)
    return Bound(math.ceil(least / limit_seconds), least / 3600)


def point_of(asked: Asked, gpus: int, priced: Priced | None = None, *, first: int | None = None) -> Point:
    """The team on so many GPUs; first: plays of the first seeds alone."""
    at = resized(asked, gpus)
    if first is not None:
        at = replace(at, seeds=at.seeds[:first])
    try:
        played = play(at)
        ends = [max(seconds_of_all(history, completion)) / 3600 for history in played.histories]
    except Infeasible as error:
        return Point(gpus, None, str(error))
    hours = [history.seconds * history.gpus / 3600 for history in played.histories]
    return Point(
        gpus,
        played,
        "",
        quantile_figure("all finished, p50", ends, 0.5, "h"),
        in_hours(promised(played, completion, "finish p95")),
        spread_figure("GPU hours", hours, "GPU h"),
        None if priced is None else _money(played, priced),
    )


def in_hours(figure: Figure) -> Figure:
    """Seconds as hours."""
    low, value, high = (None if each is None else each / 3600 for each in (figure.low, figure.value, figure.high))
    return replace(figure, value=value, low=low, high=high, unit="h")


def point_sheet(points: Sequence[Point], words: Sequence[str], currency: str | None) -> Sheet:
    """A row a size; words: what is said of each."""
    money = (currency,) if currency is not None else ()
    rows: list[tuple[Cell, ...]] = []
    for point, word in zip(points, words, strict=True):
        figures = (point.end, point.finish, point.gpu_hours)
        end, finish, hours = (None if each is None else each.value for each in figures)
        low, high = (None, None) if point.finish is None else (point.finish.low, point.finish.high)
        paid = (None if point.money is None else point.money.value,) if money else ()
        count = point.finish.samples if point.finish is not None else 0
        rows.append((point.gpus, end, finish, low, high, hours, *paid, count, word))
    columns = ("GPUs", "all finished p50 h", "finish p95 h", "low", "high", "GPU h", *money, "plays", "verdict")
    return Sheet("by size", columns, tuple(rows))


def size_chart(points: Sequence[Point], limit_hours: float | None, tells: str) -> Chart:
    """GPUs against completion."""
    known = [point for point in points if point.end is not None and point.finish is not None]
    x = tuple(point.gpus for point in known)
    ends = [point.end for point in known if point.end is not None]
    tails = [point.finish for point in known if point.finish is not None]
    series = [_line("p50", x, ends), _line("p95", x, tails)]
    if limit_hours is not None:
        series.append(Series("promised", x, (limit_hours,) * len(x)))
    return Chart("line", "GPUs against completion", "GPUs", "hours", tuple(series), tells)


def grounds_of(points: Sequence[Point]) -> list[Ground]:
    """What the played sizes rest on."""
    return [point.played.ground for point in points if point.played is not None]


def _line(name: str, x: tuple[int, ...], figures: Sequence[Figure]) -> Series:
    return Series(
        name,
        x,
        tuple(each.value for each in figures),
        tuple(each.low for each in figures),
        tuple(each.high for each in figures),
    )


def _money(played: Played, priced: Priced) -> Figure:
    each = [invoice(bill, played.gpus, priced.price, priced.book).total for bill in bills(played)]
    return spread_figure("bill", each, priced.book.currency)
