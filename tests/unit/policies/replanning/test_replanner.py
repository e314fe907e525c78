"""Stay or move: the laws of hysteresis, and what is decided in plain cases."""

from dataclasses import replace
from functools import cache

import pytest

from costmodel.moving import Moving
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from policies.batching.boundaries import DynamicBuckets
from policies.batching.padded import Padded
from policies.deployment.expected import planning_batches
from policies.deployment.fixed import Fixed
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.judge import Judge
from policies.dispatch.balanced import Balanced
from policies.replanning.carrying import Impossible, carried
from policies.replanning.decision import Terms
from policies.replanning.replanner import Replanner, counts_of, neighbours
from toys import MODEL, ToyCost, cluster, tenant, workload

BATCHING, DISPATCH, COST = Padded(DynamicBuckets()), Balanced(work=20), ToyCost()
PLANNER = Heterogeneous(BATCHING, DISPATCH, batches=2, pool=4, exchanges=4)
EVERYBODY = workload()
SHORT = EVERYBODY.only([0, 1])


def judge(who=EVERYBODY, cost=COST):
    return Judge(planning_batches(who, 2, 0), BATCHING, DISPATCH, cost)


def poor(who=SHORT) -> DeploymentPlan:
    """A plan that serves anybody, slowly."""
    return Fixed("4,1x1", BATCHING, DISPATCH, batches=2).plan(who, MODEL, cluster(), COST)


@cache
def planned(names: tuple[str, ...]) -> DeploymentPlan:
    """The planner's plan, made once: many tests ask for the same."""
    who = EVERYBODY.only([place for place, each in enumerate(EVERYBODY.tenants) if each.name in names])
    return PLANNER.plan(who, MODEL, cluster(), COST)


class Planned:
    """The planner, with a memory."""

    def plan(self, workload, *_):
        return planned(tuple(each.name for each in workload.tenants))


def decide(running, who, **terms):
    return Replanner(running, Planned(), judge(who), Moving(), Terms(**terms)).decide(who)


@pytest.fixture
def best() -> DeploymentPlan:
    return planned(("short", "middle", "long"))


@pytest.mark.parametrize("factor", [0.0, 2.0])
def test_nothing_moves_where_the_tenants_stay_the_same(best, factor):
    decision = decide(best, EVERYBODY, factor=factor, plays=0)
    assert not decision.moves
    assert decision.chosen.plan.replicas == best.replicas
    assert decision.chosen.moving_seconds == decision.fresh.moving_seconds == 0.0
    assert decision.reason().startswith("stay: no plan was found whose steps are shorter")


def test_the_choice_is_never_worse_than_staying_or_than_the_planners_own(best):
    for running, who in ((best, SHORT), (poor(), EVERYBODY), (poor(), SHORT)):
        decision = decide(running, who, horizon=50)
        totals = [option.total(decision.terms) for option in (decision.stay, decision.fresh) if option]
        assert decision.chosen.total(decision.terms) <= min(totals)
        assert decision.chosen.plan.tenants == who.tenants


def test_a_move_waits_until_what_it_saves_exceeds_its_cost_by_the_factor():
    running = poor()
    saved = decide(running, SHORT, horizon=10**6, plays=0)
    assert saved.moves
    cost, gain = saved.chosen.moving_seconds, saved.saved_seconds
    assert cost > 0 < gain
    horizon = 5
    limit = gain * horizon / cost
    for factor, moves in ((0.99 * limit, True), (1.01 * limit, False)):
        decision = decide(running, SHORT, horizon=horizon, factor=factor, plays=0)
        assert decision.moves is moves
        assert decision.reason().startswith("move:" if moves else "stay:")
        assert f"over {horizon} steps" in decision.reason()


def test_a_longer_horizon_never_turns_a_move_into_staying():
    moves = [decide(poor(), SHORT, horizon=horizon, factor=1e4, plays=0).moves for horizon in (1, 10**2, 10**4, 10**6)]
    assert moves == sorted(moves)
    assert moves[-1]


def test_between_the_two_a_plan_is_found_that_beats_both():
    found = [decide(poor(), SHORT, horizon=20, factor=1e3, plays=plays).chosen for plays in (0, 12)]
    terms = Terms(20, 1e3)
    assert found[1].total(terms) <= found[0].total(terms)


def test_a_plan_that_cannot_hold_the_new_tenants_must_move_and_says_why():
    running = Fixed("1,1x16", BATCHING, DISPATCH, batches=2).plan(EVERYBODY.only([0]), MODEL, cluster(), COST)
    decision = decide(running, EVERYBODY, factor=1e9)
    assert decision.stay is None
    assert decision.moves
    assert "tenant 'long' may bring a sequence of 4096 tokens" in decision.reason()
    assert max(replica.budget for replica in decision.chosen.plan.replicas) >= 4096


class Heavy(ToyCost):
    """Every tenant takes 256 tokens of each GPU."""

    def max_tokens(self, config, tenants):
        return super().max_tokens(config, tenants) - 256 * len(tenants) * config.tp


def test_budgets_follow_the_memory_that_the_tenants_leave():
    plan = poor(EVERYBODY.only([0]))
    half = replace(plan, replicas=tuple(replace(each, budget=1536) for each in plan.replicas))  # of 3072
    found = carried(half, SHORT, judge(SHORT, Heavy()))
    assert [replica.budget for replica in found.replicas] == [1024]  # of 2048
    assert found.replicas[0].gpus == plan.replicas[0].gpus


def test_tenants_who_need_all_the_memory_are_told_of():
    many = replace(
        EVERYBODY, tenants=tuple(tenant(f"t{n}", 1, 64) for n in range(4)), choices=((32,),) * 4
    )  # 4 x 256 of 1024 tokens
    found = carried(poor(), many, judge(many, Heavy()))
    assert isinstance(found, Impossible)
    assert "leave a replica <4,1> no memory" in found.reason


def test_the_choice_carries_the_planners_bound_and_its_own_seconds(best):
    decision = decide(poor(), SHORT, horizon=1, factor=1e9)
    certificate = decision.chosen.plan.certificate
    assert not decision.moves
    assert certificate.expected_seconds == decision.stay.step_seconds > certificate.bound_seconds > 0


def test_a_tenant_who_changed_is_refused(best):
    changed = replace(EVERYBODY, tenants=(replace(EVERYBODY.tenants[0], rank=4), *EVERYBODY.tenants[1:]))
    with pytest.raises(BadInput, match="tenant 'short': it differs from the one in the running plan"):
        decide(best, changed)


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"factor": -1.0}, {"factor": float("nan")}, {"plays": -1}])
def test_senseless_terms_are_refused(wrong):
    with pytest.raises(BadInput, match=f"{next(iter(wrong))} is"):
        Terms(**wrong)


def test_neighbours_use_as_many_gpus_and_hold_the_longest_sequence(best):
    kinds = [(replica.config, replica.budget) for replica in best.replicas]
    counts = counts_of(best.replicas)
    found = list(
        neighbours(
            counts, sorted({kind for kind, _ in counts} | {kind for kind, _ in counts_of(poor().replicas)}), 4096
        )
    )
    gpus = sum(config.gpus for config, _ in kinds)
    for one in found:
        assert sum(kind.config.gpus * count for kind, count in one) == gpus
        assert max(kind.budget for kind, _ in one) >= 4096
