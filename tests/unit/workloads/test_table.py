"""Laws in whole tokens."""

import numpy as np
import pytest
from scipy import stats

from workloads.lengths import Beta, Empirical, ShiftedLogNormal
from workloads.table import NEGLIGIBLE, tabulate


def test_a_length_is_its_value_rounded_and_at_least_one():
    table = tabulate(Empirical((0, 1), (0, 4)), "x")

    assert table.lengths.tolist() == [1, 2, 3, 4]
    assert table.probabilities == pytest.approx([1.5 / 4, 1 / 4, 1 / 4, 0.5 / 4])


def test_all_rows_equal_give_one_length():
    table = tabulate(Empirical((0, 1), (7, 7)), "x")

    assert table.sample(np.random.default_rng(0), 5).tolist() == [7] * 5
    assert table.moments() == (7, 0, 0, 0)


def test_quantiles_of_uniforms_have_the_probabilities_of_the_table():
    table = tabulate(Beta(1.4, 4.7, 2, 40), "x")
    uniforms = (np.arange(100_000) + 0.5) / 100_000

    shares = np.bincount(table.quantile(uniforms), minlength=table.longest + 1)[1:] / 100_000

    np.testing.assert_allclose(shares, table.probabilities, atol=2e-5)


def test_moments_are_those_of_a_large_sample():
    table = tabulate(Beta(1.4, 4.7, 200, 4000), "x")
    sample = table.sample(np.random.default_rng(0), 400_000)

    expected = (sample.mean(), sample.std(), stats.skew(sample), stats.kurtosis(sample))
    assert table.moments() == pytest.approx(expected, rel=0.01, abs=0.02)


def test_a_law_without_end_is_cut_where_nothing_is_left():
    law = ShiftedLogNormal(48, 5.1, 0.62)
    table = tabulate(law, "x")

    assert not table.bounded
    assert 1 - law.cumulative(np.array([table.longest + 0.5]))[0] <= NEGLIGIBLE
    assert 1 - law.cumulative(np.array([table.longest - 0.5]))[0] > NEGLIGIBLE


def test_the_share_of_at_most_any_number_of_tokens_is_known():
    table = tabulate(Empirical((0, 1), (0.5, 4.5)), "x")

    assert table.at_most(np.array([0, 1, 2, 4, 99])).tolist() == [0, 0.25, 0.5, 1, 1]
