"""Who pays what: bills that add up, Shapley values by hand, the core."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.capacity.accounting import Charged, billed, divided, overcharged
from experiments.capacity.shapley import blocking, coalition_costs, shapley
from lobra.errors import BadInput


def fixed(**weights: float):
    return lambda tenants: {name: weights[name] for name in tenants}


def test_every_interval_is_divided_among_those_who_were_there_and_the_rest_is_idle():
    charges = [Charged(("a",), 100), Charged(("b", "a"), 400), Charged((), 50)]
    bill = billed(charges, fixed(a=1, b=3), "work")

    assert bill.shares == (("a", 200), ("b", 300))
    assert (bill.idle, bill.total) == (50, 550)
    assert [dollars for _, dollars in bill.dollars(3.6).shares] == pytest.approx([0.2, 0.3])
    assert bill.dollars(3.6).total == pytest.approx(0.55)


def test_four_gpus_for_45_minutes_are_three_gpu_hours():
    bill = billed([Charged(("a",), 4 * 45 * 60)], fixed(a=1), "work")

    assert bill.total / 3600 == 3.0
    assert bill.dollars(4.0 / 4).total == pytest.approx(3.0)  # a node of 4 at 4 $ an hour


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sets(st.sampled_from("abcdefgh")), st.floats(0, 1e9)), max_size=30),
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1e12)),
    st.floats(0, 100),
)
def test_shares_and_declared_idle_sum_to_the_bill(given_charges, given_weights, price):
    charges = [Charged(tuple(sorted(tenants)), seconds) for tenants, seconds in given_charges]
    bill = billed(charges, lambda tenants: {name: given_weights.get(name, 0.0) for name in tenants}, "tokens")
    money = bill.dollars(price)

    assert bill.total == pytest.approx(math.fsum(each.gpu_seconds for each in charges), rel=1e-12)
    assert math.fsum([bill.idle, *(share for _, share in bill.shares)]) == pytest.approx(bill.total, rel=1e-9)
    assert math.fsum([money.idle, *(share for _, share in money.shares)]) == pytest.approx(money.total, rel=1e-9)


def test_where_nobody_weighs_anything_all_pay_alike():
    assert divided(9.0, {"a": 0, "b": 0, "c": 0}, ("a", "b", "c")) == {"a": 3, "b": 3, "c": 3}


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(BadInput, match="the weight of tenant 'a'"):
        divided(1.0, {"a": weight}, ("a",))


def test_who_pays_more_than_alone_is_named_with_by_how_much():
    (found,) = overcharged({"dolly": 1.43, "books": 8.0}, {"dolly": 1.0, "books": 9.0})

    assert found.tenants == ("dolly",)
    assert found.share == pytest.approx(0.43)


AIRPORT = {"small": 1.0, "middle": 3.0, "large": 6.0}  # a runway costs what the largest of its users needs


def runway(some: frozenset[str]) -> float:
    return max(AIRPORT[name] for name in some)


def test_the_runway_is_shared_as_in_the_textbook():
    """Littlechild and Owen (1973): each part of the runway is shared equally by those who need it."""
    costs = coalition_costs(tuple(AIRPORT), runway)
    shares = shapley(tuple(AIRPORT), costs)

    assert shares == pytest.approx({"small": 1 / 3, "middle": 1 / 3 + 1, "large": 1 / 3 + 1 + 3})
    assert blocking(shares, costs) == ()


def test_a_coalition_that_would_pay_less_by_itself_is_found():
    costs = coalition_costs(tuple(AIRPORT), runway)
    worst = blocking({"small": 2.0, "middle": 2.0, "large": 2.0}, costs)

    assert [(each.tenants, each.paid, each.alone) for each in worst] == [
        (("small",), 2, 1),
        (("middle", "small"), 4, 3),
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=5), st.floats(0.1, 1))
def test_shapley_values_sum_to_the_cost_of_all_and_equals_pay_alike(sizes, power):
    names = tuple(f"t{number}" for number in range(len(sizes) + 1))
    weight = dict(zip(names, [sizes[0], *sizes], strict=True))  # the first two are alike
    costs = coalition_costs(names, lambda some: sum(weight[name] for name in some) ** power)
    shares = shapley(names, costs)

    assert math.fsum(shares.values()) == pytest.approx(costs[frozenset(names)])
    assert shares["t0"] == pytest.approx(shares["t1"])
    assert min(shares.values()) > 0


def test_more_than_twelve_tenants_have_no_exact_shapley_values():
    with pytest.raises(BadInput, match="exact up to 12"):
        coalition_costs(tuple(f"t{number}" for number in range(13)), len)
