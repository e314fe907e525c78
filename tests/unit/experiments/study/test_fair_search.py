"""Candidates of both sides: searched where it matters, priced as the planner prices them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import toys
from experiments.study import fair_search
from experiments.study.fair_matrix import GROUPS, Options, searched
from experiments.study.fair_prices import step_seconds
from experiments.study.fair_search import Search, Tally, candidates, used_by
from experiments.walk import World
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.expected import planning_batches
from policies.deployment.homogeneous import Homogeneous
from policies.deployment.judge import Judge
from policies.dispatch.balanced import Balanced
from policies.dispatch.flexible import FlexibleGroups
from policies.policy import step_plan

BATCHING = Padded(FixedBuckets((256, 1024, 4096)))
SETS = searched(("none", "full"), 1)


@pytest.fixture
def search():
    workload = toys.workload()
    world = World(workload, toys.MODEL, toys.cluster(), toys.ToyCost())
    return Search(world, BATCHING, Balanced(), planning_batches(workload, 2, 0), plays=4, seed=0, cp=False)


def played(search, plan):
    return Judge(search.batches, BATCHING, search.dispatch, search.world.cost).seconds(plan)


@pytest.mark.parametrize("cp", [False, True])
def test_equal_replicas_are_as_fast_as_those_of_the_homogeneous_planner(search, cp):
    dispatch = FlexibleGroups(GROUPS) if cp else Balanced()
    search = replace(search, dispatch=dispatch, cp=cp)
    planner = Homogeneous(BATCHING, dispatch, budgets=2, batches=2, groups=GROUPS if cp else 1)
    world = search.world
    best = planner.plan(world.workload, world.model, world.cluster, world.cost)
    tally = Tally()
    candidates(search, [Options()], tally)
    equal = next(iter(tally.plans.values()))

    assert len({(replica.config, replica.budget) for replica in equal.replicas}) == 1
    assert played(search, equal) == pytest.approx(best.certificate.expected_seconds)


def test_no_mix_is_slower_on_the_planning_batches_than_equal_replicas_with_the_same_options(search):
    for allowed in SETS:
        tally = Tally()
        candidates(search, [allowed], tally)
        equal, *_, mix = (*tally.plans.values(), *tally.plans.values())  # one plan where both are the same

        assert allowed.allows(used_by(equal))
        assert allowed.allows(used_by(mix))
        assert played(search, mix) <= played(search, equal)


@pytest.mark.parametrize(("found_with_more", "made", "identical"), [("none", 1, 1), ("full", 2, 0)])
def test_a_search_is_left_out_where_the_plan_of_more_options_answers_it(monkeypatch, found_with_more, made, identical):
    plan = toys.plan((8, 1, 2))
    monkeypatch.setattr(fair_search, "_equal", lambda *_: iter(()))
    monkeypatch.setattr(fair_search, "used_by", lambda _: Options(found_with_more))

    tally = Tally()
    candidates(SimpleNamespace(mix=lambda _: plan), [Options("full"), Options()], tally)

    assert (tally.made, tally.identical) == (made, identical)


def test_a_plan_is_priced_as_the_planners_judge_prices_it(search):
    plan = toys.plan((1, 2, 2), (4, 1, 1), (8, 1, 1))
    cost = search.world.cost
    steps = [step_plan(batch, plan, BATCHING, search.dispatch, cost) for batch in search.batches]

    assert step_seconds(plan, steps, cost).mean() == pytest.approx(played(search, plan))
