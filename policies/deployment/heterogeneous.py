"""Heterogeneous deployment: the mix of replicas that makes the expected step shortest.

The idea (paper, Eq. 1-2): short sequences are cheapest on few GPUs, long ones need many, so a cluster of different
replicas, with the work balanced over them, beats one of equal replicas. The planner draws batches of its own, buckets
each by the runtime's rule, and solves the tau-MILP (see tau.py) on their average: first without bubbles, whose optimum
is the certified bound, then with them until the plan stops changing. The fluid ranks pipelines only to a few per cent
and knows no whole sequences, so a pool of candidates (every round, its main kinds alone, pp = 1 alone, every planning
batch for itself, the homogeneous plans) is played by the very batching and dispatch that will run later; the fastest
is improved by exchanges, in which some replicas of one kind give their GPUs to another, and taken. It is never worse
than the tuned homogeneous plan on the planning batches. Cost: about eight programs of K integers, each a second or
two at most up to thousands of GPUs, and the played plans. Limits: the bound holds for the planning batches and their
buckets (packed, a class of lengths is priced at its mean); beyond 20,000 sequences fewer batches and fewer candidates
are played, and none improved; replicas never share a micro-batch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import Literal

import numpy as np

from lobra.errors import BadInput, Infeasible
from lobra.plan import Certificate, DeploymentPlan
from lobra.protocols import Batching, CostModel, DispatchPolicy, Workload
from lobra.spec import ClusterSpec, ModelSpec
from policies.deployment.classes import Classes, Table, awkward_seconds, classes_of, table, undominated
from policies.deployment.expected import Longest, paper_batch, planning_batches
from policies.deployment.judge import JUDGED_SEQUENCES, Judge, unplayable, within_reach
from policies.deployment.kinds import Recompute, Space
from policies.deployment.placement import Kind
from policies.deployment.pool import bubble_rounds, exchanges, worth_playing
from policies.deployment.problem import Problem, problem_of
from policies.deployment.tau import Fluid, Outcome, Search, deploy, fluid_seconds, ideal_seconds
from policies.solvers import SolverName

EXCHANGED_SEQUENCES = 50_000  # played at most while improving: large workloads leave little to gain, and cost most
FEWEST_PLAYS = 4  # below that, looking for neighbours costs more than the chance of a better one is worth
LARGE_POOL = 3  # candidates played where one batch alone has more sequences than are judged otherwise

BOUND = (
    "fluid without bubbles, over all mixes of kinds, on the planning batches in their buckets at the batching's prices"
)

Expectation = Literal["batches", "paper"]
Counts = tuple[tuple[Kind, int], ...]


@dataclass(frozen=True, slots=True)
class Heterogeneous:
    """Any mix of kinds; a DeploymentPolicy."""

    batching: Batching
    dispatch: DispatchPolicy
    solver: SolverName = "highs"
    candidates: tuple[tuple[int, int], ...] | None = None  # (tp, pp) allowed; None: all that the cost model prices
    recompute: Recompute = "none"
    budgets: int = 3  # micro-batch budgets of a pipeline: M, M/2, M/4
    batches: int = 4  # planning batches
    pool: int = 12  # candidates played at most
    expectation: Expectation = "batches"  # paper: its one expected batch, for comparison
    exchanges: int = 24  # plans played at most while improving the best of the pool
    time_limit_seconds: float = 10.0  # of one program
    seed: int = 0
    longest: Longest = "limit"

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise BadInput(f"deployment: pool is {self.pool}; at least 1 candidate must be played")
        if self.exchanges < 0:
            raise BadInput(f"deployment: exchanges is {self.exchanges}; it counts played plans, 0 or more")
        if self.expectation not in ("batches", "paper"):
            raise BadInput(f"deployment: expectation is {self.expectation!r}; choose batches or paper")

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """The fastest of the pool on the planning batches; Infeasible where nothing holds the longest sequence."""
        space = Space(self.candidates, self.recompute, self.budgets)
        problem = problem_of(space, workload, self.longest, model=model, cluster=cluster, cost=cost)
        problem.homogeneous()  # refuses at once what no kind holds
        batches = within_reach(planning_batches(workload, self.batches, self.seed))
        judge = Judge(batches, self.batching, self.dispatch, cost)
        found = self._search(problem, judge)
        if not found.counts:
            raise unplayable(judge)
        return problem.plan(found.counts, self._certificate(found))

    def _search(self, problem: Problem, judge: Judge) -> "_Found":
        """The fastest played of the pool and of its neighbours, with what bounds it."""
        menu = problem.menu(problem.kinds)  # buckets of a plan with every kind: budgets matter little to them
        classes = classes_of(judge.batches, self.batching, menu, problem.cost)
        fluid = self._fluid(problem, classes)
        expected, of_expected = classes, fluid
        if self.expectation == "paper":
            expected = Classes(
                *paper_batch(problem.workload, self.batching, menu, problem.cost, problem.longest.tokens)
            )
            of_expected = self._fluid(problem, expected)
        rounds = bubble_rounds(of_expected, expected.counts)
        relaxed = deploy(fluid, classes.counts) if self.expectation == "paper" else next(iter(rounds), None)
        judge = replace(judge, floors=_floors(fluid, classes))
        large = len(judge.batches[0]) > JUDGED_SEQUENCES
        pool = islice(worth_playing(of_expected, expected, rounds), min(self.pool, LARGE_POOL) if large else self.pool)
        equal = _equal(problem, classes, judge)
        tried = [*(_counts(of_expected.prices, numbers) for numbers in pool), *equal[: 1 if large else None]]
        best, _ = _fastest(dict.fromkeys(tried), problem, judge, _Found(inf, ()))
        best = self._improved(problem, of_expected, expected, judge, best)
        alone = awkward_seconds(np.min(fluid.prices.alone, axis=0), classes.by_batch)
        if relaxed is not None and fluid.prices.certain < 1:
            relaxed = deploy(self._certain(problem, classes), classes.counts)
        return replace(best, alone_seconds=alone, relaxed=relaxed)

    def _fluid(self, problem: Problem, classes: Classes) -> Fluid:
        prices = table(classes, problem.kinds, self.batching, problem.cost)
        prices = prices.rows(undominated(prices, problem.longest.tokens))
        search = Search(self.solver, self.time_limit_seconds)
        return Fluid(prices, problem.cluster, problem.longest.tokens, search)

    def _certain(self, problem: Problem, classes: Classes) -> Fluid:
        """The fluid at the prices that no step undercuts, over every kind: what a bound may rest on."""
        prices = table(classes, problem.kinds, self.batching, problem.cost)
        search = Search(self.solver, self.time_limit_seconds)
        return Fluid(replace(prices, each=prices.least), problem.cluster, problem.longest.tokens, search)

    def _improved(self, problem: Problem, fluid: Fluid, classes: Classes, judge: Judge, best: "_Found") -> "_Found":
        """Exchanges of replicas, the first that helps each time, until none does or enough was played."""
        affordable = EXCHANGED_SEQUENCES // sum(map(len, judge.batches))
        plays = min(self.exchanges, affordable) if affordable >= FEWEST_PLAYS else 0
        seen = {best.counts}
        while plays > 0 and best.counts:
            numbers = _numbers(fluid.prices, best.counts)
            if numbers is None:  # a homogeneous plan of a kind that the fluid has no use for
                break
            near = (_counts(fluid.prices, one) for one in exchanges(fluid, numbers, classes.counts, best.seconds))
            fresh = list(islice((counts for counts in near if counts not in seen), plays))
            before = best
            best, played = _fastest(fresh, problem, judge, before, first=True)
            seen.update(fresh[:played])
            plays -= played
            if best is before:
                break
        return best

    def _certificate(self, found: "_Found") -> Certificate:
        relaxed = found.relaxed
        return Certificate(
            expected_seconds=found.seconds,
            bound_seconds=max(found.alone_seconds, relaxed.bound_seconds if relaxed else 0.0),
            bound=BOUND,
            solver=relaxed.solver if relaxed else "none",
            status=relaxed.status if relaxed else "time_limit",
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """The best plan so far, and what bounds it."""

    seconds: float
    counts: Counts
    alone_seconds: float = 0.0  # of the most awkward sequence
    relaxed: Outcome | None = None  # the fluid optimum without bubbles


def _fastest(
    candidates: Iterable[Counts], problem: Problem, judge: Judge, best: "_Found", *, first: bool = False
) -> tuple["_Found", int]:
    """The fastest of the candidates and `best` (or the first that is faster), and how many were played."""
    played = 0
    for counts in candidates:
        played += 1
        try:
            seconds = judge.seconds(problem.plan(counts), best.seconds)
        except Infeasible:  # no place on these nodes
            continue
        if seconds < best.seconds:
            best = _Found(seconds, counts)
            if first:
                break
    return best, played


def _floors(fluid: Fluid, classes: Classes) -> tuple[float, ...]:
    """Seconds of each batch that no plan beats: nothing ever waits; 3 % less, as prices of packs are estimates."""
    gpus = fluid.cluster.gpus
    return tuple(0.97 * ideal_seconds(fluid.prices, amounts, gpus) for amounts in classes.by_batch)


def _equal(problem: Problem, classes: Classes, judge: Judge) -> list[Counts]:
    """The homogeneous plans, fastest fluid first."""
    options = problem.homogeneous()
    prices = table(classes, [kind for kind, _ in options], judge.batching, judge.cost)
    seconds = [fluid_seconds(prices.rows([row]), [count], classes.counts) for row, (_, count) in enumerate(options)]
    return [(options[place],) for place in sorted(range(len(options)), key=lambda place: seconds[place])]


def _counts(prices: Table, numbers: Sequence[int]) -> Counts:
    return tuple((kind, number) for kind, number in zip(prices.kinds, numbers, strict=True) if number)


def _numbers(prices: Table, counts: Counts) -> tuple[int, ...] | None:
    """How many of each kind of the table; None where a kind is not in it."""
    given = dict(counts)
    if not given.keys() <= set(prices.kinds):
        return None
    return tuple(given.get(kind, 0) for kind in prices.kinds)
