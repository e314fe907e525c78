"""Heterogeneous deployment: the mix of replicas that makes the expected step shortest.

The idea (paper, Eq. 1-2): short sequences are cheapest on few GPUs, long ones need many, so a cluster of different
replicas, with the work balanced over them, beats one of equal replicas. The planner draws batches of its own, buckets
each by the runtime's rule, and solves the sample-average tau-MILP over them (see sampled.py): first without bubbles,
whose optimum is the certified bound, then with them until the plan stops changing. The fluid ranks pipelines only to a
few per cent and knows no whole sequences, so a pool of candidates (every round, its main kinds alone, pp = 1 alone, the
mean batch, every batch for itself, the homogeneous plans) is played by the very batching and dispatch that will run
later; the fastest is improved by exchanges, in which some replicas of one kind give their GPUs to another, and taken.
Playing ends where the bound says that nothing is left to gain. The plan is never worse than the tuned homogeneous one
on the planning batches. Cost: about ten programs of K integers, each a second or two at most up to thousands of GPUs,
and the played plans. Limits: the bound holds for the planning batches and their buckets (packed, a class of lengths is
priced at its mean); beyond 20,000 sequences fewer batches and fewer candidates are played, and none improved. With
`groups`, equal replicas without pipelines may share micro-batches if the dispatch can (`FlexibleGroups`); then a group
may hold what no replica does, and the bound covers all groups of at most so many replicas (see sharing.py).
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import Certificate, DeploymentPlan
from lobra.protocols import Batching, CostModel, DispatchPolicy, Workload
from lobra.spec import ClusterSpec, ModelSpec
from policies.deployment.classes import Classes, classes_of, undominated
from policies.deployment.expected import Longest, paper_batch, planning_batches
from policies.deployment.judge import Judge, unplayable, within_reach
from policies.deployment.kinds import Recompute, Space
from policies.deployment.problem import Problem, problem_of
from policies.deployment.proof import proof
from policies.deployment.rounds import Rounds, rounds
from policies.deployment.sampled import deploy_sampled
from policies.deployment.search import Best, Searched, search
from policies.deployment.sharing import group_table
from policies.deployment.tau import Fluid, Search, ideal_seconds
from policies.solvers import SolverName

SCOPE = "all mixes of these kinds on the planning batches in their buckets"
Expectation = Literal["sampled", "mean", "paper"]


@dataclass(frozen=True, slots=True)
class Heterogeneous:
    """Any mix of kinds; a DeploymentPolicy."""

    batching: Batching
    dispatch: DispatchPolicy
    solver: SolverName = "highs"
    candidates: tuple[tuple[int, int], ...] | None = None  # (tp, pp) allowed; None: all that the cost model prices
    recompute: Recompute = "none"
    fsdp: int = 1  # equal replicas that may share their frozen weights, at most
    budgets: int = 3  # micro-batch budgets of a pipeline: M, M/2, M/4
    batches: int = 4  # planning batches
    pool: int = 12  # candidates played at most
    expectation: Expectation = "sampled"  # mean: the batches' average; paper: its one expected batch; for comparison
    exchanges: int = 24  # plans played at most while improving the best of the pool
    time_limit_seconds: float = 60.0  # of one program; a guard, work is limited in nodes
    seed: int = 0
    longest: Longest = "limit"
    groups: int = 1  # equal replicas that may share a micro-batch, at most; the dispatch must know how

    def __post_init__(self) -> None:
        if self.groups < 1:
            raise BadInput(f"deployment: groups is {self.groups}; it counts replicas that share, 1 or more")
        if self.pool < 1:
            raise BadInput(f"deployment: pool is {self.pool}; at least 1 candidate must be played")
        if self.exchanges < 0:
            raise BadInput(f"deployment: exchanges is {self.exchanges}; it counts played plans, 0 or more")
        if self.expectation not in ("sampled", "mean", "paper"):
            raise BadInput(f"deployment: expectation is {self.expectation!r}; choose sampled, mean or paper")

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """The fastest of the pool on the planning batches; Infeasible where nothing holds the longest sequence."""
        space = Space(self.candidates, self.recompute, self.budgets, self.fsdp)
        problem = problem_of(space, workload, self.longest, model=model, cluster=cluster, cost=cost, groups=self.groups)
        problem.homogeneous(self.groups)  # refuses at once what no kind holds
        batches = within_reach(planning_batches(workload, self.batches, self.seed))
        judge = Judge(batches, self.batching, self.dispatch, cost)
        menu = problem.menu(problem.kinds)  # buckets of a plan with every kind: budgets matter little to them
        classes = classes_of(judge.batches, self.batching, menu, cost)
        fluid = self._fluid(problem, classes)
        found = rounds(fluid, classes.by_batch)
        known = self._known(problem, classes, fluid, found)
        best = search(known, problem, judge, pool=self.pool, exchanges=self.exchanges)
        if not best.counts:
            raise unplayable(judge)
        return problem.plan(best.counts, self._certificate(problem, classes, best, fluid=fluid, found=found))

    def _known(self, problem: Problem, classes: Classes, fluid: Fluid, found: Rounds | None) -> Searched:
        """What the pool is drawn from: the sampled batches, or what else is expected."""
        if self.expectation == "sampled":
            return Searched(fluid, classes, found, classes, fluid, found)
        expected = replace(classes, by_batch=classes.counts[None, :])
        if self.expectation == "paper":
            menu = problem.menu(problem.kinds)
            longest = problem.longest.tokens
            expected = Classes(*paper_batch(problem.workload, self.batching, menu, problem.cost, longest))
        of_expected = self._fluid(problem, expected)
        return Searched(of_expected, expected, rounds(of_expected, expected.by_batch), classes, fluid, found)

    def _fluid(self, problem: Problem, classes: Classes, *, certain: bool = False) -> Fluid:
        """The kinds worth having; `certain`: all, at prices that no step undercuts, which a bound may rest on."""
        longest, cluster, groups = problem.longest.tokens, problem.cluster, problem.groups
        prices = group_table(
            classes, problem.kinds, self.batching, problem.cost, cluster=cluster, groups=groups, loose=certain
        )
        limits = Search(self.solver, time_limit_seconds=self.time_limit_seconds)
        fluid = Fluid(prices, cluster, longest, limits, groups, loose=certain)
        if certain:
            return replace(fluid, prices=replace(prices, each=prices.least))
        return replace(fluid, prices=prices.rows(undominated(prices, longest, fluid.holders)))

    def _certificate(
        self, problem: Problem, classes: Classes, best: Best, *, fluid: Fluid, found: Rounds | None
    ) -> Certificate:
        """What no plan of these kinds beats on the planning batches, and what of the gap is bubble."""
        relaxed, with_bubbles = found.relaxed if found else None, found.with_bubbles if found else 0.0
        every, padded = self._fluid(problem, classes, certain=True), fluid.prices.certain >= 1
        if relaxed is not None and (not padded or self.groups > 1):
            expected = _each(relaxed.bound_seconds, fluid, classes.by_batch)
            relaxed = deploy_sampled(every, classes.by_batch, expected)
        levels = padded and self.groups == 1
        proven, told = proof(every, classes, relaxed, found, known=best.seconds, levels=levels)
        sharing = "" if self.groups == 1 else f", equal replicas sharing in groups of up to {self.groups}"
        pipelines = any(kind.config.pp > 1 for kind, _ in best.counts)
        return Certificate(
            expected_seconds=best.seconds,
            bound_seconds=proven.seconds,
            bound=proven.words(f"{SCOPE}{sharing}"),
            solver=told.solver if told else "none",
            status=told.status if told else "limit",
            seed=self.seed,
            with_bubbles_seconds=min(max(proven.seconds, with_bubbles), best.seconds) if pipelines else None,
            kinds=len(problem.kinds),
            undominated=len(fluid.prices.kinds),
            notice=told.notice if told else None,
        )


def _each(mean: float, fluid: Fluid, by_batch: Array) -> Array:
    """A mean time shared out over the batches in proportion to their ideal steps; [S]."""
    ideal = np.array([ideal_seconds(fluid.prices, amounts, fluid.cluster.gpus) for amounts in by_batch])
    shared: Array = ideal * (mean / ideal.mean())
    return shared
