"""Steady states: beginnings are left out, and intervals hold what they promise."""

import numpy as np
import pytest

from experiments.capacity.steady import beginning, quantile, steady, typical_seconds
from lobra.errors import BadInput


def test_the_beginning_of_a_queue_that_fills_is_left_out():
    rng = np.random.default_rng(0)
    rising = np.minimum(np.arange(600) / 100, 1.0) * 10 + rng.normal(0, 1, 600)

    assert 60 <= beginning(rising.tolist()) <= 150
    assert beginning([1.0] * 4) == 0


def test_an_interval_of_batch_means_holds_the_true_level_about_nine_times_in_ten():
    """A series of memory 0.8, whose naive interval would hold it five times in ten."""
    held = 0
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(0, 1, 2000)
        series, value = [], 0.0
        for each in noise:
            value = 0.8 * value + each
            series.append(5 + value)
        found = steady(series)
        held += found.low <= 5 <= found.high

    assert 165 <= held <= 195


def test_too_few_values_have_a_level_but_no_interval():
    found = steady([1.0, 2.0, 3.0] * 20)

    assert (found.value, found.low, found.high) == (pytest.approx(2, abs=0.2), None, None)
    assert steady([]).value is None


def test_a_quantile_is_a_value_that_was_seen():
    assert [quantile(share)([5, 1, 4, 2, 3]) for share in (0.0, 0.5, 0.95, 1.0)] == [1, 3, 5, 5]


def test_the_typical_step_is_the_median_after_warm_up_and_of_all_where_there_are_no_more():
    assert typical_seconds([9.0, 9.0, 9.0, 1.0, 2.0, 4.0]) == 2.0
    assert typical_seconds([9.0, 3.0]) == 6.0
    with pytest.raises(BadInput, match="there is no step"):
        typical_seconds([])
