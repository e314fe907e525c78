"""Arrivals: budgets in steps, laws of time, offers drawn by weight, names that must differ."""

import math

import numpy as np
import pytest

from lobra.errors import BadInput
from lobra.spec import Tenant
from workloads.arrivals.drawing import burst_times, drawn, poisson_times
from workloads.arrivals.nouns import Arrival, Budget, Offer, check_names, ordered


def offer(name: str, **more: object) -> Offer:
    return Offer(Tenant(name, 8, 1024), **({"budget": Budget(100)} | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        (Budget(10), 10),
        (Budget(10.2), 11),
        (Budget(1000, "tokens"), 3),  # 400 a step
        (Budget(1.5, "epochs"), 19),  # 150 sequences, 8 a step
    ],
)
def test_a_budget_ends_with_the_step_that_uses_it_up(budget, steps):
    assert budget.steps(batch_size=8, step_tokens=400, sequences=100) == steps


def test_epochs_of_a_stream_without_end_are_refused():
    with pytest.raises(BadInput, match="epochs of a tenant whose data have no end"):
        Budget(1, "epochs").steps(8, 400)


@pytest.mark.parametrize("amount", [0, -1, math.inf, math.nan])
def test_a_budget_that_is_no_amount_is_refused(amount):
    with pytest.raises(BadInput, match="budget: steps is"):
        Budget(amount)


def test_poisson_arrivals_come_at_the_rate_asked_for():
    times = poisson_times(per_hour=5 * 3600, horizon_seconds=600, seed=0)

    assert abs(len(times) - 3000) <= 220  # four standard deviations
    assert abs(float(np.diff(times).mean()) - 0.2) < 0.02
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] < 600


def test_bursts_have_the_mean_and_the_variation_asked_for():
    gaps = np.diff(burst_times(per_hour=3600, horizon_seconds=100_000, seed=1, variation=2.0))

    assert abs(float(gaps.mean()) - 1) < 0.05
    assert abs(float(gaps.std() / gaps.mean()) - 2) < 0.3


@pytest.mark.parametrize("law", [poisson_times, burst_times])
def test_a_longer_horizon_changes_no_arrival_before(law):
    short, long = law(10, 36_000, 7), law(10, 360_000, 7)

    assert np.array_equal(long[: len(short)], short)
    assert len(long) > len(short)
    assert not np.array_equal(law(10, 36_000, 8), short)


def test_offers_come_by_their_weights_under_names_of_their_own():
    offers = (offer("often", weight=3), offer("seldom", deadline_seconds=60, priority=2, budget_sigma=0.5))
    made = drawn(np.arange(4000.0), offers, seed=0)

    kinds = [each.kind for each in made]
    assert abs(kinds.count("often") / 4000 - 0.75) < 0.03
    assert made[17].tenant.name == f"{made[17].kind}-0017"
    assert len({each.tenant.name for each in made}) == 4000
    seldom = [each for each in made if each.kind == "seldom"]
    assert {(each.deadline_seconds, each.priority) for each in seldom} == {(60, 2)}
    amounts = np.array([each.budget.amount for each in seldom])
    assert abs(float(np.median(amounts)) - 100) < 6
    assert abs(float(np.log(amounts).std()) - 0.5) < 0.05
    assert {each.budget.amount for each in made if each.kind == "often"} == {100}
    assert drawn(np.arange(4000.0), offers, seed=0) == made


def test_arrivals_are_ordered_by_time_and_keep_their_order_at_equal_times():
    given = [Arrival(Tenant(name, 1, 8), at, Budget(1)) for name, at in (("c", 5), ("b", 1), ("a", 5))]

    assert [each.tenant.name for each in ordered(given)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("names", "message"),
    [(["legal", "Legal"], "'legal' and 'Legal' differ by case alone"), (["a", "b", "a"], "'a' stands twice")],
)
def test_names_that_a_bill_would_mix_up_are_refused(names, message):
    with pytest.raises(BadInput, match=message):
        check_names(names)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"per_hour": 0}, "per_hour is 0"),
        ({"horizon_seconds": math.nan}, "horizon_seconds is nan"),
        ({"per_hour": 1e9}, "more than"),
    ],
)
def test_a_law_that_gives_no_arrivals_or_too_many_is_refused(changed, message):
    with pytest.raises(BadInput, match=message):
        poisson_times(**({"per_hour": 1.0, "horizon_seconds": 36_000.0, "seed": 0} | changed))
