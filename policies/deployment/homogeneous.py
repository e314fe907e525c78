"""Homogeneous deployment, tuned: one kind of replica, as many as there is room for.

The idea: of all kinds that hold the longest admissible sequence, fill the cluster with each in turn, play the
planner's own batches on it through the very batching and dispatch that will run later, and keep the fastest on average
(ties: fewer GPUs a replica, then the cost model's order). That is what a careful user of the baselines would do, so a
comparison with it flatters nobody; the paper's own baseline plans are available as fixed ones. Cost: one played plan a
qualifying kind, less those whose bound is worse than the best. With `shared`, replicas may compute a long micro-batch
together (context parallelism), so a kind qualifies if all its replicas together hold the longest sequence. Limits: it
sees `batches` batches, drawn beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nextafter

import numpy as np

from lobra.errors import BadInput
from lobra.plan import Certificate, DeploymentPlan
from lobra.protocols import Batching, CostModel, DispatchPolicy, Workload
from lobra.spec import ClusterSpec, ModelSpec
from policies.deployment.classes import awkward_seconds, classes_of, table
from policies.deployment.expected import Longest, planning_batches, single
from policies.deployment.judge import Judge, unplayable, within_reach
from policies.deployment.kinds import Recompute, Space
from policies.deployment.placement import Kind
from policies.deployment.problem import Problem, problem_of


@dataclass(frozen=True, slots=True)
class Homogeneous:
    """The best of all plans with one kind of replica; a DeploymentPolicy."""

    batching: Batching
    dispatch: DispatchPolicy
    recompute: Recompute = "none"
    budgets: int = 1  # micro-batch budgets tried of a pipeline: M, M/2, M/4, ...
    shared: bool = False  # a group of replicas may hold together what one cannot
    candidates: tuple[tuple[int, int], ...] | None = None  # (tp, pp) allowed; None: all that the cost model prices
    fsdp: int = 1  # equal replicas that may share their frozen weights, at most
    batches: int = 4  # planning batches
    seed: int = 0
    longest: Longest = "limit"

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """The fastest on the planning batches; Infeasible where no kind holds the longest admissible sequence."""
        space = Space(self.candidates, self.recompute, self.budgets, self.fsdp)
        problem = problem_of(space, workload, self.longest, model=model, cluster=cluster, cost=cost)
        options = self._options(problem)
        batches = within_reach(planning_batches(workload, self.batches, self.seed))
        judge = Judge(batches, self.batching, self.dispatch, cost)
        bounds = [self._bound(option, problem, judge) for option in options]
        seconds, _, chosen = self._fastest(options, bounds, problem, judge)
        if seconds == inf:
            raise unplayable(judge)
        certificate = Certificate(
            expected_seconds=seconds,
            bound_seconds=min(bounds),
            bound=f"fluid without bubbles, on the planning batches: the best of {len(options)} homogeneous plans",
            solver="none",
            status="enumerated",
            seed=self.seed,
        )
        return problem.plan([options[chosen]], certificate)

    def _options(self, problem: Problem) -> tuple[tuple[Kind, int], ...]:
        """Kinds that hold the longest sequence, with their numbers; where replicas share, the dispatch is asked."""
        options = problem.homogeneous(shared=self.shared)
        if not self.shared:
            return options
        probe = single(problem.longest.tokens)
        judge = Judge((probe,), self.batching, self.dispatch, problem.cost)
        holding = tuple(option for option in options if judge.holds(problem.plan([option])))
        if not holding:
            raise unplayable(judge)
        return holding

    @staticmethod
    def _fastest(
        options: Sequence[tuple[Kind, int]], bounds: Sequence[float], problem: Problem, judge: Judge
    ) -> tuple[float, int, int]:
        """Seconds, GPUs a replica and position of the fastest; what its bound rules out is not played."""
        best = (inf, 0, -1)
        for order in sorted(range(len(options)), key=lambda order: (bounds[order], order)):
            if bounds[order] > best[0]:
                break
            seconds = judge.seconds(problem.plan([options[order]]), nextafter(best[0], inf))
            best = min(best, (seconds, options[order][0].config.gpus, order))
        return best

    def _bound(self, option: tuple[Kind, int], problem: Problem, judge: Judge) -> float:
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
        return max(fluid, awkward_seconds(np.min(alone, axis=0), classes.by_batch))


def group_sizes(count: int) -> tuple[int, ...]:
    """Sizes of the groups that `count` replicas may form: equal ones of all, or powers of two."""
    return tuple(size for size in range(1, count + 1) if count % size == 0 or size.bit_count() == 1)
