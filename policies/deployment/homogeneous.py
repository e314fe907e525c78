"""Homogeneous deployment, tuned: one kind of replica, as many as there is room for.

The idea: of all kinds that hold the longest admissible sequence, fill the cluster with each in turn, play the
planner's own batches on it through the very batching and dispatch that will run later, and keep the fastest on average
(ties: fewer GPUs a replica, then the cost model's order). That is what a careful user of the baselines would do, so a
comparison with it flatters nobody; the paper's own baseline plans are available as fixed ones. Cost: one played plan a
qualifying kind, less those whose bound is worse than the best. With `groups` above 1, replicas may compute a long
micro-batch together (context parallelism), so a kind qualifies if so many of them together hold the longest sequence
and the dispatch, which must know how, places it. Limits: it sees `batches` batches, drawn beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nextafter

import numpy as np

from lobra.errors import BadInput
from lobra.plan import Certificate, DeploymentPlan
from lobra.protocols import Batching, CostModel, DispatchPolicy, Workload
from lobra.spec import ClusterSpec, ModelSpec
from policies.bounds.best import FLUID, LATENCY, NEARLY, Bound, best_bound, mean_bound, strongest
from policies.deployment.classes import awkward_seconds, classes_of, table
from policies.deployment.expected import Longest, planning_batches, single
from policies.deployment.judge import Judge, unplayable, within_reach
from policies.deployment.kinds import Recompute, Space
from policies.deployment.placement import Kind
from policies.deployment.problem import Problem, problem_of

REFINED = 16  # plans at most whose level bound is looked for once the fastest is known: 0.1 s each
MISPRICED = 0.02  # relative: by so much a judge's finer prices may be below those that level bounds rest on


@dataclass(frozen=True, slots=True)
class Homogeneous:
    """The best of all plans with one kind of replica; a DeploymentPolicy."""

    batching: Batching
    dispatch: DispatchPolicy
    recompute: Recompute = "none"
    budgets: int = 1  # micro-batch budgets tried of a pipeline: M, M/2, M/4, ...
    groups: int | None = 1  # replicas that may share a micro-batch, at most; None: as many as there are
    candidates: tuple[tuple[int, int], ...] | None = None  # (tp, pp) allowed; None: all that the cost model prices
    fsdp: int = 1  # equal replicas that may share their frozen weights, at most
    batches: int = 4  # planning batches
    seed: int = 0
    longest: Longest = "limit"

    def __post_init__(self) -> None:
        if self.groups is not None and self.groups < 1:
            raise BadInput(f"deployment: groups is {self.groups}; it counts replicas that share, 1 or more")

    @property
    def shared(self) -> bool:
        """Whether replicas may share micro-batches."""
        return self.groups != 1

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """The fastest on the planning batches; Infeasible where no kind holds the longest admissible sequence."""
        space = Space(self.candidates, self.recompute, self.budgets, self.fsdp)
        problem = problem_of(space, workload, self.longest, model=model, cluster=cluster, cost=cost)
        options = self._options(problem)
        batches = within_reach(planning_batches(workload, self.batches, self.seed))
        judge = Judge(batches, self.batching, self.dispatch, cost)
        known = [self._bound(option, problem, judge) for option in options]
        seconds, _, chosen = self._fastest(options, known, problem, judge)
        if seconds == inf:
            raise unplayable(judge)
        proven = self._proven(options, known, problem, judge)
        certificate = Certificate(
            expected_seconds=seconds,
            bound_seconds=proven.seconds,
            bound=proven.words(f"the best of {len(options)} homogeneous plans on the planning batches"),
            solver="none",
            status="enumerated",
            seed=self.seed,
        )
        return problem.plan([options[chosen]], certificate)

    def _options(self, problem: Problem) -> tuple[tuple[Kind, int], ...]:
        """Kinds that hold the longest sequence, with their numbers; where replicas share, the dispatch is asked."""
        options = problem.homogeneous(self.groups)
        if not self.shared:
            return options
        probe = single(problem.longest.tokens)
        judge = Judge((probe,), self.batching, self.dispatch, problem.cost)
        holding = tuple(option for option in options if judge.holds(problem.plan([option])))
        if not holding:
            raise unplayable(judge)
        return holding

    def _fastest(
        self, options: Sequence[tuple[Kind, int]], known: list[Bound], problem: Problem, judge: Judge
    ) -> tuple[float, int, int]:
        """Seconds, GPUs a replica and position of the fastest; what its bound rules out is not played.

        Bounds are sharpened in place where that may save playing a plan, which takes longer.
        """
        best = (inf, 0, -1)
        for order in sorted(range(len(options)), key=lambda order: (known[order].seconds, order)):
            if known[order].seconds > best[0]:
                break
            if best[0] < inf:
                known[order] = self._sharper(known[order], options[order], problem, judge)
                if known[order].seconds > best[0] * (1 + MISPRICED):
                    continue
            seconds = judge.seconds(problem.plan([options[order]]), nextafter(best[0], inf))
            best = min(best, (seconds, options[order][0].config.gpus, order))
        return best

    def _proven(self, options: Sequence[tuple[Kind, int]], known: list[Bound], problem: Problem, judge: Judge) -> Bound:
        """What none of the plans beats: the least bound, once the plans that had it were looked at more closely."""
        for _ in range(REFINED):
            least = min(range(len(options)), key=lambda order: (known[order].seconds, order))
            sharper = self._sharper(known[least], options[least], problem, judge)
            if sharper == known[least]:
                break
            known[least] = sharper
        best = min(known, key=lambda bound: bound.seconds)
        floor = min(bound.simulator_seconds for bound in known)
        return replace(best, simulator_seconds=min(best.seconds, floor))

    def _sharper(self, bound: Bound, option: tuple[Kind, int], problem: Problem, judge: Judge) -> Bound:
        """The level bound of a plan where it is greater; nothing better is known where replicas may share.

        Whole patterns of machines would take a second a plan and are left out.
        """
        if self.shared:
            return bound
        better = self._best_bound(option, problem, judge)
        return better if better.seconds > bound.seconds * NEARLY else bound

    def _best_bound(self, option: tuple[Kind, int], problem: Problem, judge: Judge) -> Bound:
        """The best bound known of one plan, batch by batch."""
        kind, count = option
        bounds = []
        for batch in judge.batches:
            classes = classes_of([batch], self.batching, problem.menu([kind]), judge.cost)
            prices = table(classes, [kind], self.batching, judge.cost)
            bounds.append(best_bound(prices.loads, [count], np.rint(classes.counts).astype(np.int64), few=0))
        return mean_bound(bounds)

    def _bound(self, option: tuple[Kind, int], problem: Problem, judge: Judge) -> Bound:
        """Seconds if sequences cost their share of the best micro-batch and all replicas ended together, or alone."""
        kind, count = option
        classes = classes_of(judge.batches, self.batching, problem.menu([kind]), judge.cost)
        each, alone = [], []
        for size in group_sizes(count) if self.shared else (1,):
            try:
                prices = table(classes, [kind], self.batching, judge.cost, size)
            except BadInput:  # the model's heads cannot be shared out to a group of this size
                if size == 1:
                    raise
                continue
            each.append(size * prices.least[0])
            alone.append(prices.alone[0])
        fluid = float(np.min(each, axis=0) @ classes.counts / count)
        latency = awkward_seconds(np.min(alone, axis=0), classes.by_batch)
        return strongest({FLUID: fluid, LATENCY: latency}, pipelined=kind.config.pp > 1)


def group_sizes(count: int) -> tuple[int, ...]:
    """Sizes of the groups that `count` replicas may form: equal ones of all, or powers of two."""
    return tuple(size for size in range(1, count + 1) if count % size == 0 or size.bit_count() == 1)
