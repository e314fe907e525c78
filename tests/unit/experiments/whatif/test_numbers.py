"""Figures of many seeds: bounds that hold for any law, and none where there are too few values."""

import numpy as np
import pytest

from experiments.whatif.numbers import mean_figure, needed, quantile_bounds, quantile_figure, spread_figure


def test_an_upper_bound_of_a_p95_takes_59_values_and_then_it_is_the_largest():
    assert needed(0.95) == 59
    assert quantile_bounds(range(58), 0.95)[1] is None
    assert quantile_bounds(range(59), 0.95)[1] == 58


def test_a_figure_with_too_few_values_says_so():
    figure = quantile_figure("finish", [1.0, 2.0, 3.0], 0.95, "h")

    assert (figure.value, figure.high) == (3.0, None)
    assert "59 seeds are needed, there are 3" in figure.note


@pytest.mark.parametrize(("quantile", "count"), [(0.5, 20), (0.5, 60), (0.95, 60), (0.95, 120)])
def test_the_bounds_hold_the_quantile_as_often_as_they_say(quantile, count):
    """Uniform values: the quantile is known, and each end may miss it in 5 % of all samples."""
    rng = np.random.default_rng(7)
    bounds = [quantile_bounds(rng.random(count).tolist(), quantile) for _ in range(2000)]
    too_high = np.mean([low is not None and low > quantile for low, _ in bounds])
    too_low = np.mean([high is not None and high < quantile for _, high in bounds])

    assert too_high <= 0.065
    assert too_low <= 0.065


def test_the_mean_of_fewer_than_20_values_has_no_interval_and_of_equal_ones_a_point():
    assert mean_figure("ratio", [1.0] * 19, "", 0).low is None
    same = mean_figure("ratio", [0.5] * 20, "", 0)
    assert (same.low, same.value, same.high) == (0.5, 0.5, 0.5)


def test_a_spread_holds_the_middle_nine_tenths():
    figure = spread_figure("GPU hours", [float(value) for value in range(101)], "GPU h")

    assert (figure.low, figure.value, figure.high) == pytest.approx((5, 50, 95))
