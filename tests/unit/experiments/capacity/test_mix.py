"""Reserved or on demand: the newsvendor's answer, every hour paid, regret never negative."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.capacity.mix import Demand, Rates, best, bill_interval, choices, demand_of, mixed, regret, scaled
from lobra.errors import BadInput


def test_uses_are_averaged_over_every_hour_they_touch():
    found = demand_of([(0, 3600, 2), (1800, 9000, 4), (9000, 9000, 100)])

    assert found.gpus == pytest.approx((2 + 4 * 0.5, 4, 4 * 0.5))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(1, 1e5), st.floats(0.1, 64)), min_size=1, max_size=20))
def test_no_gpu_hour_gets_lost(uses):
    found = demand_of([(start, start + seconds, gpus) for start, seconds, gpus in uses])

    assert sum(found.gpus) == pytest.approx(sum(seconds * gpus for _, seconds, gpus in uses) / 3600, rel=1e-6)


def test_at_40_percent_off_a_gpu_is_reserved_that_is_needed_60_percent_of_the_time():
    """Ten hours that need 1, 2, ... 10 GPUs: the fifth is needed in six hours of ten, the sixth in five."""
    demand = Demand(tuple(float(each) for each in range(1, 11)))

    assert best(demand, Rates(0.6 - 1e-9, 1.0)).reserved_gpus == 5
    assert best(demand, Rates(0.6 + 1e-9, 1.0)).reserved_gpus == 4


def test_bill_idle_and_unmet_hours_by_hand():
    found = mixed(Demand((0.0, 5.0, 12.0)), Rates(1.0, 2.0, gpus_per_node=4), 4)

    assert (found.reserved_cost, found.on_demand_cost) == (12.0, 2.0 * (4 + 8))
    assert found.gpu_hours == (4.0, 1.0 + 8.0)
    assert found.bill == 36.0


def test_no_discount_reserves_nothing_and_a_steady_demand_everything():
    assert best(Demand((1.0, 9.0, 3.0)), Rates(2.0, 2.0)).reserved_gpus <= 1  # one is always needed: either is as cheap
    assert best(Demand((8.0,) * 50), Rates(1.0, 1.5, 8)).reserved_gpus == 8


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=50),
    st.floats(0.1, 1),
    st.integers(1, 8),
    st.sampled_from([0.8, 1.0, 1.2]),
)
def test_regret_is_never_negative_and_none_in_hindsight(gpus, reserved, a_node, factor):
    demand, rates = Demand(tuple(gpus)), Rates(reserved, 1.0, a_node)
    chosen = best(demand, rates)

    assert chosen.bill == min(each.bill for each in choices(demand, rates))
    assert regret(demand, rates, chosen.reserved_gpus, factor) >= -1e-9
    assert regret(demand, rates, best(scaled(demand, factor), rates).reserved_gpus, factor) == pytest.approx(
        0, abs=1e-9
    )


def test_the_interval_of_the_bill_holds_it_and_needs_a_week():
    rng = np.random.default_rng(0)
    month = Demand(tuple(rng.uniform(0, 64, 30 * 24).tolist()))
    rates = Rates(1.0, 2.0)
    low, high = bill_interval(month, rates, 30, seed=1) or (0, 0)

    assert low < mixed(month, rates, 30).bill < high
    assert bill_interval(Demand(month.gpus[: 6 * 24]), rates, 30, seed=1) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Demand(()), "no hour"),
        (lambda: Demand((-1.0,)), "0 or more"),
        (lambda: Rates(0.0, 1.0), "reserved is 0.0"),
        (lambda: demand_of([]), "nobody uses a GPU"),
        (lambda: demand_of([(-5, 10, 1)]), "before 0"),
        (lambda: scaled(Demand((1.0,)), 0.0), "factor is 0.0"),
    ],
)
def test_a_demand_that_is_none_is_refused(make, message):
    with pytest.raises(BadInput, match=message):
        make()
