"""The search: candidates are played, the fastest is improved, and the bounds say which need not be.

A candidate whose own fluid without bubbles is no faster than the best played plan cannot win and is skipped; where the
best is as fast as the bound of all plans, the search ends. Both leave the outcome as good as playing everything.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from lobra.errors import Infeasible
from policies.deployment.classes import Classes, Table
from policies.deployment.exchanges import exchanges as neighbours
from policies.deployment.expected import single
from policies.deployment.judge import JUDGED_SEQUENCES, Judge
from policies.deployment.placement import Kind
from policies.deployment.pool import worth_playing
from policies.deployment.problem import Problem
from policies.deployment.rounds import Rounds
from policies.deployment.sampled import sampled_seconds
from policies.deployment.sharing import group_table
from policies.deployment.tau import Fluid

EXCHANGED_SEQUENCES = 50_000  # played at most while improving: large workloads leave little to gain, and cost most
FEWEST_PLAYS = 4  # below that, looking for neighbours costs more than the chance of a better one is worth
LARGE_POOL = 3  # candidates played where one batch alone has more sequences than are judged otherwise
CLOSE = 1e-3  # of the bound: nothing worth looking for is left

Counts = tuple[tuple[Kind, int], ...]


@dataclass(frozen=True, slots=True)
class Searched:
    """What candidates are drawn from (the first three), and what judges them: the sampled batches."""

    fluid: Fluid
    expected: Classes
    found: Rounds | None
    classes: Classes
    judged: Fluid
    certified: Rounds | None


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest plan played so far."""

    seconds: float = inf
    counts: Counts = ()


def search(known: Searched, problem: Problem, judge: Judge, *, pool: int, exchanges: int) -> Best:
    """The fastest played of the pool, of the homogeneous plans and of its neighbours."""
    large = len(judge.batches[0]) > JUDGED_SEQUENCES
    match = _Match(known, problem, judge)
    best = Best()
    if known.found is not None:
        suggested = worth_playing(known.fluid, known.expected.by_batch, known.found)
        drawn = (_counts(known.fluid.prices, numbers) for numbers in suggested)
        best, _ = match.fastest(islice(_distinct(drawn), min(pool, LARGE_POOL) if large else pool), best)
    equal = _equal(problem, known.classes, judge)
    best, _ = match.fastest(equal[: 1 if large else None], best, every=True)
    affordable = EXCHANGED_SEQUENCES // sum(map(len, judge.batches))
    plays = min(exchanges, affordable) if affordable >= FEWEST_PLAYS else 0
    return _improved(match, best, plays)


@dataclass(frozen=True, slots=True)
class _Match:
    """Plays candidates as long as they may win."""

    known: Searched
    problem: Problem
    judge: Judge

    def fastest(
        self, candidates: Iterable[Counts], best: Best, *, first: bool = False, every: bool = False
    ) -> tuple[Best, int]:
        """The fastest of the candidates and `best` (or the first that is faster), and how many were looked at.

        `every`: also where `best` is close to the bound.
        """
        looked = 0
        for counts in candidates:
            if not every and self.over(best):
                break
            looked += 1
            floors = self._floors(counts)
            if not sum(floors) < best.seconds * len(floors):
                continue
            try:
                seconds = replace(self.judge, floors=floors).seconds(self.problem.plan(counts), best.seconds)
            except Infeasible:  # no place on these nodes
                continue
            if seconds < best.seconds and self._holds(counts):
                best = Best(seconds, counts)
                if first:
                    break
        return best, looked

    def over(self, best: Best) -> bool:
        """Whether nothing worth looking for is left."""
        certified, certain = self.known.certified, self.known.judged.prices.certain
        return certified is not None and best.seconds <= certified.relaxed.bound_seconds * certain * (1 + CLOSE)

    def _floors(self, counts: Counts) -> tuple[float, ...]:
        """Seconds of each judged batch that the candidate cannot beat: its fluid without bubbles."""
        prices = _prices(self.problem, self.known.classes, counts, self.judge)
        numbers = [number for _, number in counts]
        seconds = sampled_seconds(prices, numbers, self.known.classes.by_batch, bubbles=False)
        return tuple((seconds * prices.certain * (1 - 1e-9)).tolist())

    def _holds(self, counts: Counts) -> bool:
        """Whether the longest sequence has a place; where groups may hold it, the dispatch is asked."""
        longest = self.problem.longest.tokens
        if self.problem.groups == 1 or any(kind.budget >= longest for kind, _ in counts):
            return True
        probe = replace(self.judge, batches=(single(longest),), floors=())
        return probe.holds(self.problem.plan(counts))


def _improved(match: _Match, best: Best, plays: int) -> Best:
    """Exchanges of replicas, the first that helps each time, until none does or enough was played."""
    seen, fluid = {best.counts}, match.known.fluid
    while plays > 0 and best.counts and not match.over(best):
        numbers = _numbers(fluid.prices, best.counts)
        if numbers is None:  # a homogeneous plan of a kind that the fluid has no use for
            break
        near = neighbours(fluid, numbers, match.known.expected.by_batch, best.seconds)
        fresh = list(islice((c for c in (_counts(fluid.prices, one) for one in near) if c not in seen), plays))
        before = best
        best, looked = match.fastest(fresh, before, first=True)
        seen.update(fresh[:looked])
        plays -= looked
        if best is before:
            break
    return best


def _equal(problem: Problem, classes: Classes, judge: Judge) -> list[Counts]:
    """The homogeneous plans, fastest fluid first."""
    options = problem.homogeneous(problem.groups)
    seconds = [
        float(sampled_seconds(_prices(problem, classes, (option,), judge), [option[1]], classes.by_batch).mean())
        for option in options
    ]
    return [(options[place],) for place in sorted(range(len(options)), key=lambda place: seconds[place])]


def _prices(problem: Problem, classes: Classes, counts: Counts, judge: Judge) -> Table:
    """What the classes cost on these kinds, in groups where replicas may share; pipelines alone may share, too."""
    kinds, groups = [kind for kind, _ in counts], problem.groups
    loose = len(kinds) == 1 and kinds[0].config.pp > 1
    return group_table(classes, kinds, judge.batching, judge.cost, cluster=problem.cluster, groups=groups, loose=loose)


def _distinct(candidates: Iterable[Counts]) -> Iterator[Counts]:
    seen = set()
    for counts in candidates:
        if counts not in seen:
            seen.add(counts)
            yield counts


def _counts(prices: Table, numbers: Sequence[int]) -> Counts:
    return tuple((kind, number) for kind, number in zip(prices.kinds, numbers, strict=True) if number)


def _numbers(prices: Table, counts: Counts) -> tuple[int, ...] | None:
    """How many of each kind of the table; None where a kind is not in it."""
    given = dict(counts)
    if not given.keys() <= set(prices.kinds):
        return None
    return tuple(given.get(kind, 0) for kind in prices.kinds)
