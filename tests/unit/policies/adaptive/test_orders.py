"""Both orders as policies: laws of every step plan, for any pipelines and batches; what the simulator sees of them."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lobra.batch import Batch
from lobra.check import check_step
from lobra.errors import BadInput, Infeasible
from lobra.owed import Owed
from lobra.plan import DeploymentPlan, StepPlan
from lobra.undrained import slots
from policies.adaptive.adaptive import Adaptive
from policies.adaptive.round_robin import RoundRobin
from policies.batching.packed import Packed
from policies.deployment.fixed import Fixed
from policies.dispatch.uniform import Uniform
from policies.grouping import Together
from policies.policy import Policy
from sim.simulator import Simulator
from toys import ToyCost, plan, tenant, workload
from unit.policies.adaptive.worlds import batch

TENANTS = tuple(tenant(name) for name in "abc")
ORDERS = {"adaptive": Adaptive(tile=16, work=40), "round_robin": RoundRobin()}
PART = some.lists(some.integers(1, 200), max_size=7)
BATCHES = some.lists(some.tuples(PART, PART, PART), min_size=1, max_size=4)


def deployed(pp: int, replicas: int, budget: int = 256) -> DeploymentPlan:
    return plan((1, pp, replicas), budget=budget, tenants=TENANTS)


def steps_of(order: Adaptive | RoundRobin, batches: list[Batch], on: DeploymentPlan) -> list[StepPlan]:
    return list(order.steps(iter(batches), on, ToyCost()))


@pytest.mark.parametrize("name", ORDERS)
@settings(max_examples=40, deadline=None)
@given(some.integers(1, 5), some.integers(1, 3), BATCHES)
def test_every_sequence_is_trained_once_every_tenant_steps_once_a_batch_and_nobody_comes_back_too_soon(
    name, pp, replicas, drawn
):
    on, batches = deployed(pp, replicas), [batch(number, *parts) for number, parts in enumerate(drawn)]

    steps = steps_of(ORDERS[name], batches, on)

    account = Owed()
    for each in batches:
        account.draw(each)
    for step in steps:
        check_step(on, step)
        account.train(step)
    account.settle()
    numbers = [step.step for step in steps]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(batches)))
    assert [step.drain for step in steps] == [False] * (len(steps) - 1) + [True]
    updated = Counter(owner for step in steps for owner in step.updates or ())
    assert updated == Counter(owner for each in batches for owner in set(each.tenant.tolist()))
    reports = list(
        Simulator(ToyCost(transfer=1e-4, synchronise=1e-3)).play([on, *steps])
    )  # refuses what breaks the rule
    assert sum(report.useful_tokens for report in reports) == sum(each.tokens for each in batches)


@pytest.mark.parametrize("name", ORDERS)
@settings(max_examples=15, deadline=None)
@given(some.integers(2, 5), some.integers(1, 2), BATCHES)
def test_no_forward_sees_weights_that_the_batch_before_has_not_updated(name, pp, replicas, drawn):
    """Oracle: the spans. Slots tell whose micro-batch is whose; a batch ends where `updates` names the tenant."""
    on, batches = deployed(pp, replicas), [batch(number, *parts) for number, parts in enumerate(drawn)]
    steps = steps_of(ORDERS[name], batches, on)
    spans = [span for report in Simulator(ToyCost()).play([on, *steps]) for span in report.spans]
    begins = {
        (span.replica, span.microbatch): span.start for span in spans if span.kind == "forward" and not span.stage
    }
    ends = {(span.replica, span.microbatch): span.end for span in spans if span.kind == "backward" and not span.stage}

    fresh = dict.fromkeys(range(3), 0.0)  # since when a tenant's weights are those of its batch so far
    worked = dict.fromkeys(range(3), 0.0)
    first = 0
    for step in steps:
        for replica, work in enumerate(step.work):
            for number, microbatch in enumerate(work, first):
                for owner in {sequence.tenant for row in microbatch.rows for sequence in row}:
                    assert begins[replica, number] >= fresh[owner]
                    worked[owner] = max(worked[owner], ends[replica, number])
        for owner in step.updates or ():
            fresh[owner] = worked[owner]
        first += slots(step)


@pytest.mark.parametrize("name", ORDERS)
def test_the_same_batches_give_the_same_step_plans(name):
    on, batches = deployed(3, 2, budget=4096), list(workload(seed=1).batches(3))
    assert steps_of(ORDERS[name], batches, on) == steps_of(ORDERS[name], batches, on)


@pytest.mark.parametrize("name", ORDERS)
def test_a_window_is_planned_when_its_first_step_plan_is_asked_for(name):
    drawn: list[int] = []

    def batches() -> Iterator[Batch]:
        for number in range(6):
            drawn.append(number)
            yield batch(number, [50], [60], [70])

    steps = ORDERS[name].steps(batches(), deployed(2, 1), ToyCost())

    assert not drawn
    assert next(steps).step == 0
    assert drawn == [0, 1]


def test_with_full_pipelines_no_flush_saves_the_bubbles():
    """Three adapters fill two stages: the flushed policy pays its bubble three times, the orders once."""
    on = deployed(2, 1)
    batches = [batch(number, [250] * 4, [250] * 4, [250] * 4) for number in range(3)]
    flushed = Policy("flushed", Together(), Fixed("1,2x1", Packed(), Uniform()), Packed(splits=(1,)), Uniform())
    seconds = {
        "flushed": played(on, list(flushed.steps(iter(batches), on, ToyCost()))),
        "round_robin": played(on, steps_of(RoundRobin(), batches, on)),
        "adaptive": played(on, steps_of(Adaptive(tile=1), batches, on)),
    }
    slot = seconds["flushed"] / (3 * (12 + 1))

    assert seconds["round_robin"] == pytest.approx((36 + 1) * slot)
    assert seconds["adaptive"] == pytest.approx(seconds["round_robin"])


def played(on: DeploymentPlan, steps: list[StepPlan]) -> float:
    return sum(report.seconds for report in Simulator(ToyCost()).play([on, *steps]))


def test_adapters_take_turns():
    on = deployed(1, 1, budget=100)
    steps = steps_of(RoundRobin(), [batch(0, [90, 90, 90], [90], [90, 90])], on)
    owners = [microbatch.rows[0][0].tenant for step in steps for microbatch in step.work[0]]
    assert owners == [0, 1, 2, 0, 2, 0]


def test_a_later_batch_fills_the_gap_that_all_of_an_earlier_one_would_leave():
    """Two stages: of the first batch only tenant 0 is left, whose micro-batch leaves room for tenant 1's next batch."""
    on = deployed(2, 1, budget=100)
    steps = steps_of(RoundRobin(), [batch(number, [90, 90], [90]) for number in range(2)], on)
    kinds = [tuple(ref.tenant for microbatch in step.work[0] for ref in microbatch.rows[0]) for step in steps]
    assert [owner for owners in kinds for owner in owners] == [0, 1, 0, 1, 0, 0]
    assert () not in kinds


def test_batches_without_a_sequence_have_a_step_plan_too():
    on = deployed(2, 2)
    batches = [batch(0, [], [], []), batch(1, [50], [], []), batch(2, [], [], [])]
    for order in ORDERS.values():
        steps = steps_of(order, batches, on)
        assert [
            (number, sum(len(work) for step in group for work in step.work))
            for number, group in groupby(steps, lambda s: s.step)
        ] == [
            (0, 0),
            (1, 1),
            (2, 0),
        ]


def test_tiles_widen_micro_batches():
    on = deployed(1, 1, budget=1024)
    (step,) = steps_of(Adaptive(tile=128), [batch(0, [130], [60, 60], [1])], on)
    assert [microbatch.width for microbatch in step.work[0]] == [256 + 128 + 128]


def test_what_cannot_be_ordered_is_refused_by_name():
    long = [batch(0, [300], [], [])]
    with pytest.raises(Infeasible, match=r"tenant 0 has a sequence of 300 tokens, but a micro-batch holds 256"):
        steps_of(RoundRobin(), long, deployed(2, 1))
    with pytest.raises(Infeasible, match=r"holds 200; raise policy\.order\.capacity"):
        steps_of(Adaptive(capacity=200), long, deployed(2, 1))
    with pytest.raises(BadInput, match=r"has 2 kinds of replicas.*choose policy/deployment=homogeneous"):
        steps_of(RoundRobin(), long, plan((1, 1, 1), (2, 1, 1), tenants=TENANTS))
    for wrong, told in (({"window": 0}, "window is 0"), ({"tile": 0}, "tile is 0"), ({"capacity": 0}, "capacity is 0")):
        for order in (Adaptive, RoundRobin):
            with pytest.raises(BadInput, match=told):
                order(**wrong)
    with pytest.raises(BadInput, match="work is -1"):
        Adaptive(work=-1)
