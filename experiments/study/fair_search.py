"""Candidate plans of both sides, found with the same kinds, planning batches and number of plays.

For every set of options and each of two batchings (few buckets, coarse packs; where micro-batches may be shared, which
is costly to search, packs alone) the planner looks for a mix, and all equal replicas are ranked by the fluid and the
best ranked played. Where the plan found with more options uses only what
fewer allow, it is the answer for these, too: that search is left out and counted as identical. What was found with one
batching is a candidate for all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from experiments.study.fair_matrix import GROUPS, SHARDED, Options
from experiments.walk import World
from lobra.batch import Batch
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan, ReplicaConfig
from lobra.protocols import Batching, CostModel, DispatchPolicy
from lobra.schedule import stage_sizes
from policies.deployment.classes import Classes, classes_of
from policies.deployment.expected import single
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.judge import Judge
from policies.deployment.kinds import Space
from policies.deployment.placement import Kind
from policies.deployment.problem import Problem, problem_of
from policies.deployment.sampled import sampled_seconds
from policies.deployment.sharing import group_table

BUDGETS = 2  # of a pipeline: M, M/2


@dataclass(frozen=True, slots=True)
class Search:
    """One way to look for plans."""

    world: World
    batching: Batching
    dispatch: DispatchPolicy
    batches: tuple[Batch, ...]
    plays: int  # of a side, at most, for each set of options
    seed: int
    cp: bool

    @property
    def groups(self) -> int:
        """Replicas that may share micro-batches."""
        return GROUPS if self.cp else 1

    def problem(self, allowed: Options) -> Problem:
        """All kinds with these options; Infeasible where none fits."""
        world = self.world
        space = Space(shapes(world.cost), _word(allowed.recompute), BUDGETS, SHARDED if allowed.fsdp else 1)
        return problem_of(
            space,
            world.workload,
            "limit",
            model=world.model,
            cluster=world.cluster,
            cost=world.cost,
            groups=self.groups,
        )

    def mix(self, allowed: Options) -> DeploymentPlan:
        """The planner's mix; Infeasible where nothing holds the longest sequence."""
        pool = (self.plays + 1) // 2
        planner = Heterogeneous(
            self.batching,
            self.dispatch,
            candidates=shapes(self.world.cost),
            recompute=_word(allowed.recompute),
            fsdp=SHARDED if allowed.fsdp else 1,
            budgets=BUDGETS,
            batches=len(self.batches),
            pool=pool,
            exchanges=self.plays - pool,
            seed=self.seed,
            groups=self.groups,
        )
        world = self.world
        return replace(planner.plan(world.workload, world.model, world.cluster, world.cost), certificate=None)


@dataclass(slots=True)
class Tally:
    """How many searches were made, left out as identical, or found nothing."""

    made: int = 0
    identical: int = 0
    infeasible: int = 0
    plans: dict[str, DeploymentPlan] = field(default_factory=dict)  # by what they are made of

    def add(self, plan: DeploymentPlan) -> None:
        """A candidate, once."""
        key = str(sorted((replica.config, replica.budget) for replica in plan.replicas))
        self.plans.setdefault(key, plan)


def candidates(search: Search, sets: Sequence[Options], tally: Tally) -> None:
    """Add the mixes and the equal replicas of every set of options, those with most first."""
    for plan in _equal(search, sets):
        tally.add(plan)
    found: list[tuple[Options, Options]] = []  # allowed, and what the plan found uses
    for allowed in sets:
        if any(more.allows(allowed) and allowed.allows(used) for more, used in found):
            tally.identical += 1
            continue
        tally.made += 1
        try:
            plan = search.mix(allowed)
        except Infeasible:
            tally.infeasible += 1
            continue
        found.append((allowed, used_by(plan)))
        tally.add(plan)


def used_by(plan: DeploymentPlan) -> Options:
    """Which options a plan uses; context parallelism is told by its steps."""
    layers = {(r.config.recompute, stage_sizes(plan.model.layers, r.config.pp)[0]) for r in plan.replicas}
    partial = any(0 < number < whole for number, whole in layers)
    level = "some" if partial else "full" if any(number for number, _ in layers) else "none"
    return Options(level, any(replica.config.fsdp > 1 for replica in plan.replicas))


def shapes(cost: CostModel) -> tuple[tuple[int, int], ...]:
    """(tp, pp) of all candidates: depths whose factors are 2 and 3, so that the programs stay small."""
    return tuple((config.tp, config.pp) for config in cost.configs() if _smooth(config.pp))


def _smooth(number: int) -> bool:
    for factor in (2, 3):
        while number % factor == 0:
            number //= factor
    return number == 1


def _equal(search: Search, sets: Sequence[Options]) -> Iterator[DeploymentPlan]:
    """The fastest equal replicas of every set of options: ranked by the fluid, the first few played."""
    try:
        problem = search.problem(sets[0])
        options = problem.homogeneous(search.groups)
    except Infeasible:
        return
    judge = Judge(search.batches, search.batching, search.dispatch, search.world.cost)
    classes = classes_of(judge.batches, search.batching, problem.menu(problem.kinds), judge.cost)
    seconds = [_fluid_seconds(option, classes, problem, search) for option in options]
    ranked = [options[row] for row in sorted(range(len(options)), key=lambda row: (seconds[row], row))]
    match = _Match(problem, judge)
    for allowed in sets:
        here = [option for option in ranked if allowed.allows(_used(option[0].config, problem))][: search.plays]
        best = match.fastest(here)
        if best is not None:
            yield problem.plan([best])


def _fluid_seconds(option: tuple[Kind, int], classes: Classes, problem: Problem, search: Search) -> float:
    """Mean step of the fluid; pipelines that are all alike may share micro-batches, too, in groups of any one size."""
    prices = group_table(
        classes,
        [option[0]],
        search.batching,
        search.world.cost,
        cluster=problem.cluster,
        groups=search.groups,
        loose=option[0].config.pp > 1,
    )
    return float(sampled_seconds(prices, [option[1]], classes.by_batch).mean())


@dataclass(frozen=True, slots=True)
class _Match:
    """Plays equal replicas, each once where that tells enough."""

    problem: Problem
    judge: Judge
    exact: dict[tuple[Kind, int], float] = field(default_factory=dict)
    least: dict[tuple[Kind, int], float] = field(default_factory=dict)  # seconds that a play, broken off, has shown

    def fastest(self, options: Sequence[tuple[Kind, int]]) -> tuple[Kind, int] | None:
        """The fastest of these; None where none can be played."""
        best, seconds = None, inf
        for option in options:
            if option not in self.exact and self.least.get(option, 0.0) < seconds:
                self._play(option, seconds)
            if self.exact.get(option, inf) < seconds:
                best, seconds = option, self.exact[option]
        return best

    def _play(self, option: tuple[Kind, int], at_most: float) -> None:
        seconds = self._seconds(option, at_most)
        if seconds < inf or at_most == inf:
            self.exact[option] = seconds
        else:
            self.least[option] = at_most

    def _seconds(self, option: tuple[Kind, int], at_most: float) -> float:
        """Of a step; infinity where they cannot be placed, do not hold the longest sequence, or are slower."""
        try:
            plan = self.problem.plan([option])
        except Infeasible:
            return inf
        longest = self.problem.longest.tokens
        if option[0].budget < longest and not replace(self.judge, batches=(single(longest),)).holds(plan):
            return inf
        return self.judge.seconds(plan, at_most)


def _used(config: ReplicaConfig, problem: Problem) -> Options:
    whole = stage_sizes(problem.model.layers, config.pp)[0]
    level = "none" if not config.recompute else "full" if config.recompute == whole else "some"
    return Options(level, config.fsdp > 1)


def _word(text: str) -> Any:
    return text
