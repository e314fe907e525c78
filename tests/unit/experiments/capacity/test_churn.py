"""Tenants come and go on a small cluster: plans, admission, re-deployment and the bill, all composed."""

import math
from dataclasses import replace

import pytest

from capacity_worlds import arrival, oracle
from experiments.capacity.accounting import overcharged
from experiments.capacity.admission import Admission
from experiments.capacity.composing import bill_of, fleet_of, jobs_of, slowness
from experiments.capacity.deciding import RULES, Decider, Redeployment
from experiments.capacity.oracle import coarse
from experiments.capacity.weights import coalition_cost, priced, weights
from lobra.errors import BadInput, Infeasible
from policies.replanning.decision import Terms
from toys import ToyCost

TEAM = (
    arrival("short-0", "short", 0.0, 200),
    arrival("long-0", "long", 2.0, 60),
    arrival("short-1", "short", 4.0, 100),
    arrival("middle-0", "middle", 5.0, 80),
)


@pytest.fixture(scope="module")
def team():
    return oracle(*TEAM)


def always(seconds):
    """Every re-deployment takes as long."""

    def price(before, after):
        del before, after
        return seconds

    return price


def played(team, rule, **more):
    decider = Decider(team, rule, always(0.5), Terms(horizon=50), start_seconds=1.0)
    fleet = fleet_of(team, Admission(team), decider, **more)
    return fleet.play(jobs_of(TEAM, team.world.workload))


@pytest.mark.parametrize("rule", RULES)
def test_under_every_rule_all_budgets_are_used_and_the_bill_adds_up(team, rule):
    history = played(team, rule, period_seconds=3.0 if rule == "periodic" else None)

    assert [record.steps for record in history.records] == [200, 60, 100, 80]
    assert history.split.total == pytest.approx(8 * history.seconds, rel=1e-9)
    for by in ("tokens", "work", "shapley"):
        bill = bill_of(history, team, by)
        assert math.fsum([bill.idle, *(share for _, share in bill.shares)]) == pytest.approx(bill.total, rel=1e-9)
        assert bill.total == pytest.approx(8 * history.seconds, rel=1e-9)


def test_never_moves_only_where_the_running_replicas_cannot_serve_and_on_change_moves_most(team):
    moves = {rule: played(team, rule).moves for rule in ("never", "hysteresis", "on_change")}

    assert 1 <= moves["never"] <= moves["hysteresis"] <= moves["on_change"]


def test_hysteresis_with_moves_that_never_pay_keeps_what_runs(team):
    two = (TEAM[0], arrival("short-1", "short", 4.0, 100))
    dear = Decider(team, "hysteresis", always(1e9), Terms(horizon=1))
    history = fleet_of(team, Admission(team), dear).play(jobs_of(two, team.world.workload))

    assert history.moves == 1


def test_equal_kinds_have_one_plan_and_one_time(team):
    assert team.kinds(("short-0", "long-0")) == team.kinds(("long-0", "short-1")) == (("long", 1), ("short", 1))
    plan = team.plan((("short", 1),))
    assert team.step_time(("short-0",), plan) is team.step_time(("short-1",), plan)
    assert [each.name for each in team.named(plan, ("short-1",)).tenants] == ["short-1"]


def test_a_coarse_mix_keeps_every_kind_and_small_sets_as_they_are():
    assert coarse((("a", 9), ("b", 3)), 4) == (("a", 3), ("b", 1))
    assert coarse((("a", 20), ("b", 1)), 4) == (("a", 4), ("b", 1))
    assert coarse((("a", 2), ("b", 1)), 4) == (("a", 2), ("b", 1))
    assert coarse((("a", 20),), None) == (("a", 20),)


def test_with_a_grain_a_large_set_takes_the_plan_of_a_small_one_with_its_own_tenants():
    many = oracle(*(arrival(f"short-{number}", "short", 0.0) for number in range(4)))
    coarser = replace(many, grain=2, _plans={}, _times={}, _judges={})

    assert coarser.plan((("short", 4),)).replicas == coarser.plan((("short", 2),)).replicas
    assert len(coarser.plan((("short", 4),)).tenants) == 4


def test_a_step_is_split_without_rest(team):
    kinds = team.kinds(tuple(each.tenant.name for each in TEAM))
    time = team.time(kinds, team.plan(kinds))

    assert time.split.total == pytest.approx(8 * time.mean, rel=1e-9)
    assert min(time.split.useful, time.split.padding, time.split.idle) >= 0
    assert time.mean == pytest.approx(team.judge(kinds).seconds(team.plan(kinds)))


def test_a_tenant_that_fits_nowhere_is_refused_before_anything_is_played():
    small = oracle(arrival("long-0", "long", 0.0), cost=ToyCost(tokens_per_gpu=100))
    with pytest.raises(Infeasible, match="tenants of kind 'long' can never be admitted"):
        small.refuse_unservable()


def test_a_slowdown_limit_keeps_tenants_apart_and_none_lets_them_join(team):
    jobs = jobs_of(TEAM, team.world.workload)

    assert Admission(team, slowdown=1.0)(0.0, jobs, (), None) == ("short-0",)
    assert Admission(team)(0.0, jobs, (), None) == tuple(job.name for job in jobs)
    assert Admission(team, most=2)(0.0, jobs, (), None) == ("short-0", "long-0")


def test_queues_are_served_in_the_order_asked_for():
    arrivals = (
        arrival("a1", "short", 0, owner="ann", priority=1, deadline_seconds=900),
        arrival("a2", "short", 0, owner="ann", priority=3),
        arrival("b1", "short", 1, owner="ben", priority=2, deadline_seconds=100),
    )
    small = oracle(*arrivals)
    jobs = jobs_of(arrivals, small.world.workload)
    orders = {
        order: Admission(small, order)(2.0, jobs, (), None) for order in ("arrival", "fair", "deadline", "priority")
    }

    assert orders == {
        "arrival": ("a1", "a2", "b1"),
        "fair": ("a1", "b1", "a2"),
        "deadline": ("b1", "a1", "a2"),
        "priority": ("a2", "b1", "a1"),
    }


def test_nothing_moved_costs_nothing_and_a_checkpoint_adds_up(team):
    price = Redeployment(always(7.0), checkpoint_seconds=2.0, warmup_seconds=3.0)
    cold = Redeployment(always(7.0), 2.0, reshard_seconds=20.0, warmup_seconds=3.0)
    short, all_four = team.plan((("short", 1),)), team.plan(team.kinds(tuple(each.tenant.name for each in TEAM)))

    assert price(short, short) == 0
    assert (price(short, all_four), cold(short, all_four)) == (12, 25)


def test_who_trains_alone_is_slowed_down_by_nothing(team):
    alone = jobs_of((TEAM[0],), team.world.workload)
    decider = Decider(team, "never", always(0.0))
    (record,) = fleet_of(team, Admission(team), decider).play(alone).records

    found = slowness(record, team)
    assert found is not None
    assert found.slowdown == pytest.approx(1.0, abs=0.05)  # steps are drawn from two played batches


def test_work_charges_long_sequences_more_a_token_and_does_not_depend_on_company(team):
    names = ("long-0", "short-0")
    tokens, work = weights(team, "tokens")(names), weights(team, "work")(names)

    assert work["long-0"] / tokens["long-0"] > work["short-0"] / tokens["short-0"]
    assert weights(team, "work")(("long-0",))["long-0"] == work["long-0"]


def test_shapley_values_of_the_fluid_leave_nobody_worse_than_alone(team):
    names = ("long-0", "middle-0", "short-0")
    kinds = team.kinds(names)
    cost = coalition_cost(priced(team, kinds), tuple(each.name for each in team.plan(kinds).tenants))
    shares = weights(team, "shapley")(names)

    assert math.fsum(shares.values()) == pytest.approx(cost(frozenset(names)), rel=1e-6)
    assert overcharged(shares, {name: cost(frozenset({name})) for name in names}, close=1e-6) == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda team: Decider(team, "sometimes", always(0.0)), "rule is 'sometimes'"),
        (lambda team: Admission(team, "random"), "order is 'random'"),
        (lambda team: Admission(team, slowdown=0.5), "slowdown is 0.5"),
        (lambda team: weights(team, "guess"), "rule is 'guess'"),
    ],
)
def test_a_rule_that_does_not_exist_is_refused(team, make, message):
    with pytest.raises(BadInput, match=message):
        make(team)
