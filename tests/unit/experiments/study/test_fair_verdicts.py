"""Verdicts on ratios made by hand, and the intervals they rest on."""

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.study.fair_paired import Costs, Ratio, ratio, saved
from experiments.study.fair_verdicts import at_most, falsifier, flags_of, in_headline, moot, survival


def sure(value, half=0.01):
    return Ratio(value, half, 0.0)


@pytest.mark.parametrize(
    ("value", "half", "word"),
    [(1.0, 0.05, "fires"), (1.19, 0.05, "undecided"), (1.3, 0.05, "does not"), (1.21, 0.5, "undecided")],
)
def test_the_falsifier_fires_where_the_baseline_is_surely_within_a_fifth_of_lobra(value, half, word):
    assert falsifier(sure(value, half)).word == word


@pytest.mark.parametrize(
    ("value", "half", "word"),
    [(0.80, 0.05, "fires"), (0.93, 0.05, "undecided"), (0.97, 0.01, "does not"), (1.0, 0.0, "does not")],
)
def test_heterogeneity_survives_where_it_surely_saves_a_twentieth(value, half, word):
    assert survival(sure(value, half)).word == word


def test_one_batch_decides_nothing():
    lonely = ratio(Costs((1.0,)), Costs((2.0,)))

    assert lonely.ends is None
    assert falsifier(lonely).word == "undecided"
    assert survival(lonely).given_prices == "undecided"


def test_unsure_prices_leave_open_what_the_batches_alone_decide():
    verdict = falsifier(Ratio(1.0, 0.01, 0.4), ("roofline",))

    assert (verdict.word, verdict.given_prices) == ("undecided", "fires")
    assert str(verdict) == "undecided [roofline]"


def test_a_verdict_carries_the_weakest_basis_and_what_is_extrapolated():
    assert flags_of(("measured", False)) == ()
    assert flags_of(("measured", False), ("derived", True)) == ("derived", "extrapolated")
    assert flags_of(("roofline", False), ("derived", False)) == ("roofline",)


@pytest.mark.parametrize(
    ("gains", "word"),
    [([0.05, 0.02], "fires"), ([0.05, 0.30], "does not"), ([0.05, 0.0995], "undecided"), ([], "undecided")],
)
def test_packing_is_moot_only_where_it_gains_little_everywhere(gains, word):
    assert moot([sure(1 - gain) for gain in gains]) == word


@pytest.mark.parametrize(
    ("ends", "where"),
    [((0.2, 0.3), "below"), ((0.46, 0.59), "inside"), ((0.7, 0.8), "above"), ((0.4, 0.5), "undecided"), (None,) * 2],
)
def test_a_saving_lies_below_inside_or_above_the_headline(ends, where):
    assert in_headline(ends) == (where or "undecided")


def test_at_most_decides_by_the_far_end():
    assert [at_most((1.0, 2.0), limit) for limit in (0.9, 1.5, 2.0)] == ["does not", "undecided", "fires"]


def test_pairing_by_batch_removes_what_both_sides_share():
    batches = np.array([10.0, 80.0, 30.0, 55.0])
    paired = ratio(Costs(tuple(0.5 * batches)), Costs(tuple(batches)))
    crossed = ratio(Costs(tuple(0.5 * batches)), Costs(tuple(batches[::-1])))

    assert paired.value == pytest.approx(0.5)
    assert paired.batches == pytest.approx(0.0)
    assert crossed.batches > 0.5


def test_draws_that_change_both_sides_alike_cancel():
    common = tuple(float(x) for x in np.exp(np.linspace(-0.5, 0.5, 12)))
    alike = ratio(Costs((1.0, 1.1), common), Costs((2.0, 2.2), common))
    apart = ratio(Costs((1.0, 1.1), common), Costs((2.0, 2.2), common[::-1]))

    assert alike.prices == pytest.approx(0.0)
    assert apart.prices == pytest.approx(1.645 * np.std(2 * np.linspace(-0.5, 0.5, 12), ddof=1))


def test_the_interval_of_batches_is_the_textbooks():
    """Against Student's t on the residuals of a ratio, computed by hand: t(0.95, 3) is 2.3534."""
    one, other = np.array([4.0, 5.0, 6.0, 9.0]), np.array([8.0, 9.0, 14.0, 17.0])
    r = one.mean() / other.mean()
    expected = 2.3534 * np.std(one - r * other, ddof=1) / 2 / one.mean()

    found = ratio(Costs(tuple(one)), Costs(tuple(other)))

    assert found.batches == pytest.approx(expected, rel=1e-4)
    assert found.ends == pytest.approx((r * exp(-expected), r * exp(expected)), rel=1e-4)


@given(
    st.floats(0.1, 10.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_the_whole_interval_holds_that_of_the_batches(value, batches, prices):
    of = Ratio(value, batches, prices)
    (low, high), (inner_low, inner_high) = of.ends, of.ends_of_batches

    assert low <= inner_low <= value * (1 + 1e-12)
    assert value * (1 - 1e-12) <= inner_high <= high


def test_what_is_saved_turns_the_interval_round():
    value, (low, high) = saved(Ratio(0.8, 0.1, 0.0))

    assert (value, low, high) == pytest.approx((0.2, 1 - 0.8 * exp(0.1), 1 - 0.8 * exp(-0.1)))
