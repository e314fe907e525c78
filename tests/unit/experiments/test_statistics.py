"""Intervals by bootstrap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import mean_interval, reduction, reduction_interval


def skewed(seed: int, count: int = 20):
    return np.random.default_rng(seed).lognormal(3.0, 0.4, count)


def test_an_interval_of_equal_values_is_that_value():
    assert mean_interval(np.full(10, 3.5), 0) == (3.5, 3.5)


def test_one_value_has_no_interval():
    assert mean_interval(np.array([3.5]), 0) is None
    assert reduction_interval(np.array([3.5]), np.array([7.0]), 0) is None


def test_the_same_values_give_the_same_interval_and_another_seed_a_slightly_different_one():
    values = skewed(1)
    assert mean_interval(values, 3) == mean_interval(values, 3)
    assert mean_interval(values, 3) == pytest.approx(mean_interval(values, 4), rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_a_mean_agrees_with_scipys_bca(seed):
    values = skewed(seed)
    oracle = stats.bootstrap((values,), np.mean, confidence_level=0.9, method="BCa", rng=np.random.default_rng(7))
    assert mean_interval(values, 0) == pytest.approx(tuple(oracle.confidence_interval), rel=0.01)


def test_the_interval_of_a_paired_reduction_agrees_with_scipys_bca():
    baseline = skewed(1)
    values = baseline * np.random.default_rng(2).normal(0.6, 0.05, len(baseline))
    oracle = stats.bootstrap(
        (values, baseline),
        lambda x, y, axis=-1: 1 - x.mean(axis=axis) / y.mean(axis=axis),
        paired=True,
        confidence_level=0.9,
        method="BCa",
        rng=np.random.default_rng(7),
    )
    assert reduction_interval(values, baseline, 0) == pytest.approx(tuple(oracle.confidence_interval), abs=0.003)


def test_nine_of_ten_intervals_hold_the_true_mean():
    generator = np.random.default_rng(5)
    intervals = [mean_interval(generator.normal(10.0, 2.0, 20), trial) for trial in range(150)]
    held = sum(low <= 10.0 <= high for low, high in intervals)
    assert 0.82 * len(intervals) <= held <= 0.96 * len(intervals)


def test_a_policy_that_always_saves_the_same_share_has_an_interval_without_width():
    baseline = skewed(4)
    assert reduction(0.6 * baseline, baseline) == pytest.approx(0.4)
    assert reduction_interval(0.6 * baseline, baseline, 0) == pytest.approx((0.4, 0.4))


def test_pairing_by_batch_makes_the_interval_narrower():
    baseline = skewed(6)
    values = 0.7 * baseline + np.random.default_rng(3).normal(0, 0.1, len(baseline))
    paired = reduction_interval(values, baseline, 0)
    shuffled = reduction_interval(np.random.default_rng(8).permutation(values), baseline, 0)
    assert paired[1] - paired[0] < (shuffled[1] - shuffled[0]) / 4


def test_against_a_baseline_that_costs_nothing_there_is_no_reduction():
    assert reduction(np.ones(3), np.zeros(3)) is None
    assert reduction_interval(np.ones(3), np.zeros(3), 0) is None


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=12), st.sampled_from([0.5, 2.0, 1024.0]))
@settings(max_examples=15, deadline=None)
def test_an_interval_lies_within_the_values_and_scales_with_them(values, scale):
    low, high = mean_interval(np.array(values), 0)
    assert min(values) <= low <= high <= max(values)
    assert mean_interval(scale * np.array(values), 0) == pytest.approx((scale * low, scale * high))
