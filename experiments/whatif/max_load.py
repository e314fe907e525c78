"""Question 6, `max-load`: how many tenants a day this cluster takes until a promise breaks.

Tenants of the offered kinds come at random (Poisson), the same ones in the same order at every rate, only closer. Each
rate is one long play: its beginning is left out (MSER-5), and the p95 of what follows has an interval from the means of
ten long batches (`capacity.steady`). Rates are tried evenly up to what the work alone allows, then between the last
that surely keeps the promise and the first that does not. Prices of work are taken as they are: where they are off by a
factor, so is the load.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.capacity.composing import Plays, jobs_of
from experiments.capacity.oracle import Oracle
from experiments.capacity.steady import Steady, quantile, steady
from experiments.capacity.weights import weights
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet, Verdict
from experiments.whatif.asking import Asked, priced_of
from experiments.whatif.numbers import plain
from experiments.whatif.playing import Ground, fleet_by_rules, ground_of, oracle_of, team_of
from experiments.whatif.scoring import completion, wait
from experiments.whatif.standing import answered
from experiments.whatif.words import told
from lobra.errors import BadInput
from sim.fleet.nouns import Job
from workloads.arrivals.drawing import drawn, poisson_times

ASKS = "How many tenants a day does this cluster take?"
DAY = 86_400.0
LEAST = 250  # tenants: ten batches of 20, and a beginning
TOP = 1.15  # of the rate that the work alone allows: there every queue grows


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """One rate, played."""

    per_day: float
    waits: Steady  # p95, seconds
    finishes: Steady
    utilisation: float  # part of the GPU seconds that trains
    tokens_per_day: float
    kept: bool | None  # None: undecided


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The same tenants at any rate."""

    asked: Asked
    oracle: Oracle
    jobs: tuple[Job, ...]  # one a second on average
    most_per_day: float  # what the work alone allows

    def play(self, per_day: float) -> Plays:
        """All of them, so many a day."""
        gap = DAY / per_day
        jobs = [replace(job, at_seconds=job.at_seconds * gap) for job in self.jobs]
        fleet = replace(fleet_by_rules(self.asked, self.oracle), seed=self.asked.seeds[0])
        return fleet.play(jobs)


def answer(asked: Asked) -> Answer:
    """The largest rate that surely keeps the promise, and the knee."""
    promise, load = asked.promise, asked.config.load
    if promise.wait_p95 is None and promise.finish_p95 is None:
        raise BadInput("slo: nothing is promised; give slo.wait_p95=30m or slo.finish_p95=8h")
    if load.tenants < LEAST or load.points < 2 or load.halvings < 0:  # a knee has two sides
        raise BadInput(f"load: tenants must be {LEAST} or more, points 2 or more, halvings 0 or more; got {load}")
    if (
        promise.wait_p95 is not None
        and asked.config.churn.admit.most is None
        and asked.config.churn.admit.slowdown is None
    ):
        raise BadInput(
            "slo.wait_p95: everybody begins at once as long as memory lasts; limit churn.admit.most=8 or "
            "churn.admit.slowdown=10, or promise slo.finish_p95"
        )
    priced = priced_of(asked)
    stream = stream_of(asked)
    ground = ground_of(stream.oracle, team_of(asked, stream.oracle))
    tried = search(stream)
    best = max((each for each in tried if each.kept), key=lambda each: each.per_day, default=None)
    return answered(
        asked,
        [ground],
        _verdict(tried, best),
        _sentences(asked, tried, best, ground),
        asks=ASKS,
        figures=_figures(best, stream, ground),
        sheets=[_sheet(tried)],
        charts=_charts(asked, tried, best),
        priced=priced,
    )


def stream_of(asked: Asked) -> Stream:
    """Tenants by one seed, and an oracle of them all."""
    count, seed = asked.config.load.tenants, asked.seeds[0]
    times = poisson_times(3600.0, 2.0 * count + 100, seed)[:count]
    arrivals = drawn(times, asked.offers, seed)
    oracle = oracle_of(asked, [arrivals])
    oracle.refuse_unservable()
    takes = weights(oracle, "work")(tuple(each.tenant.name for each in arrivals))
    jobs = jobs_of(arrivals, oracle.world.workload, asked.sizes)
    mean = math.fsum(job.steps * takes[job.name] for job in jobs) / len(jobs)
    return Stream(asked, oracle, jobs, DAY * asked.world.cluster.gpus / mean)


def search(stream: Stream) -> tuple[Tried, ...]:
    """An even grid of rates until one does not surely keep the promise, then halvings; ascending."""
    load = stream.asked.config.load
    tried: list[Tried] = []
    for number in range(load.points):
        tried.append(_tried(stream, stream.most_per_day * TOP * (number + 1) / load.points))
        if not tried[-1].kept:
            break
    low = max((each.per_day for each in tried if each.kept), default=0.0)
    above = [each.per_day for each in tried if not each.kept and each.per_day > low]
    high = min(above, default=None)
    for _ in range(load.halvings if high is not None else 0):
        assert high is not None  # else there is nothing to halve
        middle = (low + high) / 2
        tried.append(_tried(stream, middle))
        low, high = (middle, high) if tried[-1].kept else (low, middle)
    return tuple(sorted(tried, key=lambda each: each.per_day))


def _tried(stream: Stream, per_day: float) -> Tried:
    history = stream.play(per_day)
    records = history.records
    waits = [wait(record) for record in records]
    ends = [completion(record) for record in records]
    if None in waits or None in ends:  # somebody was never served
        return Tried(per_day, steady([]), steady([]), 0.0, 0.0, False)
    p95 = quantile(0.95)
    waited = steady([each for each in waits if each is not None], p95)
    ended = steady([each for each in ends if each is not None], p95)
    split = history.split
    promise = stream.asked.promise
    kept = [_kept(found, limit) for found, limit in ((waited, promise.wait_p95), (ended, promise.finish_p95)) if limit]
    verdict = False if False in kept else None if None in kept else True
    tokens = per_day * math.fsum(record.tokens for record in records) / len(records)
    return Tried(per_day, waited, ended, split.useful / split.total, tokens, verdict)


def _kept(found: Steady, limit: float) -> bool | None:
    if found.low is None or found.high is None:
        return None
    return True if found.high <= limit else False if found.low > limit else None


def _verdict(tried: Sequence[Tried], best: Tried | None) -> Verdict:
    if best is not None:
        return "feasible"
    return "undecided" if any(each.kept is None for each in tried) else "infeasible"


def _sentences(asked: Asked, tried: Sequence[Tried], best: Tried | None, ground: Ground) -> list[str]:
    promise = asked.promise
    parts = {"wait p95": promise.wait_p95, "finish p95": promise.finish_p95}
    words = " and ".join(f"{name} {told(limit)}" for name, limit in parts.items() if limit is not None)
    off = f"Prices of work may be off by a factor of {math.exp(1.645 * ground.sigma):.3g} either way, and so may this."
    if best is None:
        least = min(each.per_day for each in tried)
        return [f"No rate that was tried surely keeps {words}; the least was {least:.3g} tenants a day.", off]
    broken = [each for each in tried if each.per_day > best.per_day and each.kept is not True]
    above = f", at {broken[0].per_day:.4g} it is {_word(broken[0].kept)}" if broken else ", the most that was tried"
    return [
        f"{best.per_day:.4g} tenants a day ({best.tokens_per_day:.3g} useful tokens) keep {words}{above}.",
        f"{100 * best.utilisation:.3g} % of the GPU time trains there; a real plan stays below it (60 to 80 % of it).",
        off,
    ]


def _figures(best: Tried | None, stream: Stream, ground: Ground) -> list[Figure]:
    bound = plain("what the work alone allows", stream.most_per_day, "tenants/day", "at the cheapest shapes")
    if best is None:
        return [plain("largest load", None, "tenants/day"), bound]
    spread = math.exp(1.645 * ground.sigma)
    low, high = best.per_day / spread, best.per_day * spread
    note = "the interval is that of the prices of work"
    return [
        Figure("largest load", best.per_day, "tenants/day", low, high, note=note),
        plain("useful tokens there", best.tokens_per_day, "tokens/day"),
        plain("GPU time that trains there", 100 * best.utilisation, "%"),
        _hours("wait p95 there", best.waits),
        _hours("finish p95 there", best.finishes),
        bound,
    ]


def _hours(name: str, found: Steady) -> Figure:
    value, low, high = (
        None if each is None else max(0.0, each) / 3600 for each in (found.value, found.low, found.high)
    )
    note = f"{found.left_out} tenants of the beginning left out, {found.batches} batches of {found.each}"
    return Figure(name, value, "h", low, high, samples=max(1, found.batches), note=note)


def _sheet(tried: Sequence[Tried]) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for each in tried:
        waits, ends = _hours("", each.waits), _hours("", each.finishes)
        figures = (waits.value, waits.low, waits.high, ends.value, ends.low, ends.high)
        rows.append((each.per_day, *figures, 100 * each.utilisation, _word(each.kept)))
    columns = ("tenants/day", "wait p95 h", "low", "high", "finish p95 h", "low", "high", "training %", "promise")
    return Sheet("by rate", columns, tuple(rows))


def _charts(asked: Asked, tried: Sequence[Tried], best: Tried | None) -> list[Chart]:
    tells = "No rate keeps it." if best is None else f"Kept up to {best.per_day:.4g} tenants a day."
    made = []
    for name, limit in (("wait", asked.promise.wait_p95), ("finish", asked.promise.finish_p95)):
        if limit is None:
            continue
        found = [_hours("", each.waits if name == "wait" else each.finishes) for each in tried]
        x = tuple(each.per_day for each in tried)
        lows, values, highs = (tuple(getattr(each, end) for each in found) for end in ("low", "value", "high"))
        lines = (Series(f"{name} p95", x, values, lows, highs), Series("promised", x, (limit / 3600,) * len(x)))
        made.append(Chart("line", f"{name} by load", "tenants a day", "hours", lines, tells))
    return made


def _word(kept: bool | None) -> str:
    return {True: "kept", False: "broken", None: "undecided"}[kept]
