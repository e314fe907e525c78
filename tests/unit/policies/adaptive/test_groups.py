"""Who is paired with whom."""

from hypothesis import given
from hypothesis import strategies as some

from policies.adaptive.groups import Demand, demand, grouped


def test_the_low_estimate_is_a_quarter_of_a_standard_deviation_lower():
    assert demand(3, [100, 200, 300], 8, 500) == Demand(3, 200, 4, 3)  # 8 * 200 / 500 = 3.2; 8 * 175 / 500 = 2.8


def test_one_length_has_no_spread_and_a_wide_one_asks_for_nothing_less_than_nothing():
    assert demand(0, [100], 5, 250) == Demand(0, 100, 2, 2)
    assert demand(0, [1] * 99 + [100_000], 1, 10_000).least == 0


def four(least: int) -> list[Demand]:
    return [Demand(adapter, 100.0 * (adapter + 1), least, least) for adapter in range(4)]


def test_long_adapters_are_paired_with_short_ones_where_the_others_fill_the_pipeline():
    assert grouped(four(2), 4) == ((3, 0), (2, 1))


def test_without_a_pipeline_everybody_is_paired():
    assert grouped(four(0), 1) == ((3, 0), (2, 1))


def test_where_pairs_would_leave_too_little_between_the_larger_stays_alone():
    """Stages - 1 = 5: two others give 4, three others 6."""
    assert grouped(four(2), 6) == ((3,), (2,), (1,), (0,))


def test_where_even_the_others_together_are_too_few_everybody_stays_alone():
    assert grouped(four(1), 8) == ((3,), (2,), (1,), (0,))


def test_nobody_makes_no_group():
    assert grouped([], 4) == ()


@given(
    some.lists(some.tuples(some.floats(1, 1000), some.integers(0, 9), some.integers(0, 9)), max_size=9),
    some.integers(1, 9),
)
def test_every_adapter_is_in_one_group_of_two_at_most(drawn, stages):
    demands = [Demand(adapter, mean, likely + least, least) for adapter, (mean, likely, least) in enumerate(drawn)]

    groups = grouped(demands, stages)

    assert sorted(adapter for group in groups for adapter in group) == list(range(len(drawn)))
    assert all(len(group) in (1, 2) for group in groups)
    for group in groups:
        if len(group) == 2:
            assert sum(one.least for one in demands if one.adapter not in group) >= stages - 1
