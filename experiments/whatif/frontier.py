"""Question 4, `frontier`: which sizes of the cluster are worth having: finish against cost."""

from collections.abc import Sequence

from experiments.whatif.answer import Answer, Chart, Figure, Series
from experiments.whatif.asking import Asked, Priced, priced_of
from experiments.whatif.numbers import plain
from experiments.whatif.sizing import Point, grounds_of, point_of, point_sheet, size_chart, sizes_of
from experiments.whatif.standing import answered
from lobra.errors import Infeasible

ASKS = "Which sizes of the cluster are worth having: how soon is all finished, and at what cost?"


def answer(asked: Asked) -> Answer:
    """Every size played; on the frontier is what no other size beats in both finish and cost."""
    priced = priced_of(asked)
    points = [point_of(asked, gpus, priced) for gpus in sizes_of(asked, 1)]
    known = [point for point in points if point.played is not None]
    if not known:
        raise Infeasible(f"frontier: no size fits the tenants; of the largest: {points[-1].reason}" if points else NONE)
    best = pareto([(_value(point.finish), _value(cost_of(point))) for point in known])
    frontier = [point for point, on in zip(known, best, strict=True) if on]
    words = {point.gpus: "frontier" if point in frontier else "beaten" for point in known}
    sentences = _sentences(frontier, known, len(points), priced)
    limit = None if asked.promise.finish_p95 is None else asked.promise.finish_p95 / 3600
    return answered(
        asked,
        grounds_of(points),
        "told",
        sentences,
        asks=ASKS,
        figures=[plain("sizes on the frontier", len(frontier), "sizes"), *_ends(frontier)],
        sheets=[
            point_sheet(
                points,
                [words.get(point.gpus, f"does not fit: {point.reason}") for point in points],
                priced.book.currency if priced else None,
            )
        ],
        charts=[_chart(frontier, known, priced, sentences[0]), size_chart(points, limit, sentences[0])],
        priced=priced,
    )


NONE = "frontier: there is no size to try; give sizes.least, sizes.most or sizes.only"


def cost_of(point: Point) -> Figure | None:
    """Dollars where there are prices, else GPU hours."""
    return point.money if point.money is not None else point.gpu_hours


def pareto(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether nothing else is at least as good in both and better in one; equal points stay together."""
    return [
        not any(other != point and other[0] <= point[0] and other[1] <= point[1] for other in points)
        for point in points
    ]


def _value(figure: Figure | None) -> float:
    assert figure is not None  # of a size that was played
    assert figure.value is not None
    return figure.value


def _sentences(frontier: Sequence[Point], known: Sequence[Point], tried: int, priced: Priced | None) -> list[str]:
    unit = priced.book.currency if priced else "GPU h"
    low, high = frontier[0], frontier[-1]
    lines = [
        f"{len(frontier)} of {tried} sizes are worth having, from {_told(low, unit)} to {_told(high, unit)}.",
    ]
    beaten = [str(point.gpus) for point in known if point not in frontier]
    if beaten:
        lines.append(f"Beaten in both finish and cost: {', '.join(beaten)} GPUs.")
    lines.append("Finish is the p95 that a promise is about; more GPUs need not finish earlier under a queue.")
    return lines


def _told(point: Point, unit: str) -> str:
    return f"{point.gpus} GPUs ({_value(point.finish):.3g} h, {_value(cost_of(point)):.4g} {unit})"


def _ends(frontier: Sequence[Point]) -> list[Figure]:
    """Of the cheapest and the fastest size worth having."""
    cheapest = min(frontier, key=lambda point: _value(cost_of(point)))
    fastest = min(frontier, key=lambda point: _value(point.finish))
    return [
        plain("cheapest size", cheapest.gpus, "GPUs"),
        *(each for each in (cheapest.finish, cost_of(cheapest)) if each is not None),
        plain("fastest size", fastest.gpus, "GPUs"),
        *(each for each in (fastest.finish, cost_of(fastest)) if each is not None),
    ]


def _chart(frontier: Sequence[Point], known: Sequence[Point], priced: Priced | None, tells: str) -> Chart:
    unit = priced.book.currency if priced else "GPU hours"
    beaten = [point for point in known if point not in frontier]
    ordered = sorted(frontier, key=lambda point: _value(point.finish))
    series = tuple(_series(name, some) for name, some in (("frontier", ordered), ("beaten", beaten)) if some)
    return Chart("line", "cost against finish", "finish p95, hours", unit, series, tells)


def _series(name: str, points: Sequence[Point]) -> Series:
    costs = [cost_of(point) for point in points]
    figures = [each for each in costs if each is not None]
    return Series(
        name,
        tuple(_value(point.finish) for point in points),
        tuple(each.value for each in figures),
        tuple(each.low for each in figures),
        tuple(each.high for each in figures),
        tuple(f"{point.gpus} GPUs" for point in points),
    )
