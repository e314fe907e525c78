"""Regret: how good a plan stays if the cost model is somewhat wrong.

The idea: coefficients are known to a few per cent at best, and a plan that is best at exactly these may be poor beside
them. Given many cost models that might be the true one, the planner plans anew for each. All plans that come of it and
the one in question are judged under every model, by the batching and dispatch that will run and on the same batches.
The regret under a model is what the plan's step takes beyond the fastest of them. It is a lower bound of the true
regret, as far as the planner misses the optimum, and zero by construction for a plan that nothing found beats. Cost:
one plan a model, and one played plan for each distinct plan and model, broken off as soon as it is no faster.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Array, frozen
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.protocols import CostModel, DeploymentPolicy, Workload
from policies.deployment.judge import Judge

SAME = 1e-9  # relative; plans closer than that are equally good


@dataclass(frozen=True, slots=True, eq=False)
class Regret:
    """Of one plan, over draws of the cost model."""

    relative: Array  # float64 [draws]: seconds of the plan over those of the best that was found, minus 1
    winners: tuple[str, ...]  # [draws]: summary of the fastest plan; the plan itself where it is
    plans: int  # different ones that were compared, the plan in question included

    @property
    def draws(self) -> int:
        """How many."""
        return len(self.relative)

    @property
    def best_share(self) -> float:
        """Share of the draws in which nothing found was faster."""
        return float(np.mean(self.relative <= SAME))

    def rivals(self) -> tuple[tuple[str, int], ...]:
        """Plans that were fastest in other draws, with how many; most frequent first."""
        lost = Counter(name for name, regret in zip(self.winners, self.relative, strict=True) if regret > SAME)
        return tuple(sorted(lost.items(), key=lambda item: (-item[1], item[0])))


def regret_of(
    plan: DeploymentPlan,
    workload: Workload,
    planner: DeploymentPolicy,
    judge: Judge,
    costs: Sequence[CostModel],
    *,
    tick: Callable[[], None] = lambda: None,
) -> Regret:
    """The plan's regret under each of these cost models; `tick` is called twice a model: planned, judged."""
    if not costs:
        raise BadInput("regret: the number of draws is 0; at least 1 cost model is needed")
    rivals: dict[object, DeploymentPlan] = {}
    owners: list[object] = []
    for cost in costs:
        made = planner.plan(workload, plan.model, plan.cluster, cost)
        owners.append(made.replicas)
        if made.replicas != plan.replicas:
            rivals.setdefault(made.replicas, made)
        tick()
    judged: list[tuple[float, str]] = []
    for cost, owner in zip(costs, owners, strict=True):
        first = [rivals[owner]] if owner in rivals else []  # the fastest as a rule: others are broken off sooner
        others = [rival for replicas, rival in rivals.items() if replicas != owner]
        judged.append(_judged(plan, first + others, replace(judge, cost=cost, floors=())))
        tick()
    relative = frozen([regret for regret, _ in judged], np.float64)
    return Regret(relative, tuple(winner for _, winner in judged), 1 + len(rivals))


def _judged(plan: DeploymentPlan, rivals: Sequence[DeploymentPlan], judge: Judge) -> tuple[float, str]:
    """The plan's regret under the judge's cost model, and the fastest plan."""
    if not rivals:
        return 0.0, plan.summary()
    own = best = judge.seconds(plan)
    winner = plan
    for rival in rivals:
        seconds = judge.seconds(rival, best)
        if seconds < best:
            best, winner = seconds, rival
    return own / best - 1, winner.summary()
