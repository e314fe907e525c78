"""Regret of a plan under other cost models."""

from dataclasses import dataclass

import numpy as np
import pytest

from costmodel.perturbed import perturbed
from lobra.errors import BadInput
from policies.batching.boundaries import DynamicBuckets
from policies.batching.padded import Padded
from policies.deployment.expected import planning_batches
from policies.deployment.fixed import Fixed
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.judge import Judge
from policies.deployment.regret import regret_of
from policies.dispatch.balanced import Balanced
from toys import MODEL, ToyCost, cluster, workload

BATCHING, DISPATCH, COST, WORK = Padded(DynamicBuckets()), Balanced(work=20), ToyCost(), workload()
SHAPES = ((1, 1), (2, 1), (4, 1), (8, 1))
PLANNER = Heterogeneous(BATCHING, DISPATCH, candidates=SHAPES, batches=2, pool=2, exchanges=2)
JUDGE = Judge(planning_batches(WORK, 2, 0), BATCHING, DISPATCH, COST)


@pytest.fixture(scope="module")
def plan():
    return PLANNER.plan(WORK, MODEL, cluster(), COST)


def test_without_perturbation_the_planners_plan_is_always_the_best(plan):
    found = regret_of(plan, WORK, PLANNER, JUDGE, [perturbed(COST, 0.0, draw=draw) for draw in range(2)])
    assert (found.draws, found.plans, found.best_share, found.rivals()) == (2, 1, 1.0, ())
    assert found.relative.tolist() == [0.0] * 2


def test_regret_is_what_the_plan_takes_beyond_the_best_in_each_draw():
    poor = Fixed("4,1x4", BATCHING, DISPATCH, batches=2).plan(WORK, MODEL, cluster(), COST)
    costs = [perturbed(COST, 0.3, draw=draw) for draw in range(2)]
    found = regret_of(poor, WORK, PLANNER, JUDGE, costs)
    assert np.all(found.relative > 0)
    assert found.best_share == 0.0
    assert sum(count for _, count in found.rivals()) == 2
    for cost, regret in zip(costs, found.relative, strict=True):
        here = Judge(JUDGE.batches, BATCHING, DISPATCH, cost)
        own = PLANNER.plan(WORK, MODEL, cluster(), cost)
        assert regret >= here.seconds(poor) / here.seconds(own) - 1 - 1e-12


@dataclass(frozen=True)
class Undecided:
    """A planner that has one plan for every cost model."""

    made: dict

    def plan(self, *known):
        return self.made[known[-1]]


def test_the_winner_of_a_draw_may_be_the_plan_of_another_draw():
    def fixed(text):
        return Fixed(text, BATCHING, DISPATCH, batches=2).plan(WORK, MODEL, cluster(), COST)

    plans = {text: fixed(text) for text in ("4,1x1", "4,1x2", "4,1x4")}
    planner = Undecided({ToyCost(): plans["4,1x2"], ToyCost(token=2e-3): plans["4,1x4"]})
    found = regret_of(plans["4,1x1"], WORK, planner, JUDGE, list(planner.made))
    assert found.winners == ("<4,1>x4", "<4,1>x4")
    assert found.plans == 3


def test_no_draws_are_refused(plan):
    with pytest.raises(BadInput, match="number of draws is 0"):
        regret_of(plan, WORK, PLANNER, JUDGE, [])
