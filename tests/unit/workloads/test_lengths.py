"""Families of lengths against NumPy's own draws, and what they refuse."""

import math

import numpy as np
import pytest

from lobra.errors import BadInput
from workloads.lengths import Beta, Empirical, Outliers, ShiftedGamma, ShiftedLogNormal, WithOutliers
from workloads.table import LARGEST, tabulate

COUNT = 200_000
POINTS = np.array([0.5, 60, 100, 150.5, 200, 300, 500, 900, 2000])


def share_below(values: np.ndarray) -> np.ndarray:
    return np.array([(values <= point).mean() for point in POINTS])


def test_a_shifted_log_normal_is_what_numpy_draws():
    values = 48 + np.random.default_rng(0).lognormal(5.1, 0.62, COUNT)

    np.testing.assert_allclose(ShiftedLogNormal(48, 5.1, 0.62).cumulative(POINTS), share_below(values), atol=0.005)


def test_truncation_restricts_the_law_and_does_not_pile_up_at_its_end():
    values = 48 + np.random.default_rng(0).lognormal(5.1, 0.62, COUNT)
    law = ShiftedLogNormal(48, 5.1, 0.62, truncate_high=300)

    np.testing.assert_allclose(law.cumulative(POINTS), share_below(values[values <= 300]), atol=0.005)
    assert law.upper == 300
    assert law.cumulative(np.array([299.0]))[0] < 0.998


def test_a_shifted_gamma_is_what_numpy_draws():
    values = 70 + np.random.default_rng(0).gamma(7.7, 200 / 7.7, COUNT)

    np.testing.assert_allclose(ShiftedGamma(70, 7.7, 200).cumulative(POINTS), share_below(values), atol=0.005)


def test_a_truncated_gamma_is_restricted():
    values = 70 + np.random.default_rng(0).gamma(1.7, 200 / 1.7, COUNT)
    law = ShiftedGamma(70, 1.7, 200, truncate_high=500)

    np.testing.assert_allclose(law.cumulative(POINTS), share_below(values[values <= 500]), atol=0.005)


def test_a_beta_law_is_what_numpy_draws():
    values = 60 + 840 * np.random.default_rng(0).beta(1.9, 8.2, COUNT)

    np.testing.assert_allclose(Beta(1.9, 8.2, 60, 900).cumulative(POINTS), share_below(values), atol=0.005)


def test_an_empirical_law_runs_straight_between_its_quantiles():
    law = Empirical((0, 0.5, 1), (100, 200, 600))

    assert law.cumulative(np.array([99.0, 100, 150, 200, 400, 600, 700])).tolist() == [0, 0, 0.25, 0.5, 0.75, 1, 1]
    assert law.mean == 0.5 * 150 + 0.5 * 400


def test_equal_quantiles_are_a_jump():
    law = Empirical((0, 0.25, 0.75, 1), (64, 64, 64, 128))

    assert law.cumulative(np.array([63.9, 64.0, 96.0])).tolist() == [0, 0.75, 0.875]


def test_moving_an_empirical_law_sets_the_mean_of_what_lies_above_the_shift():
    law = Empirical((0, 0.5, 1), (100, 200, 600)).moved(shift=60, scale_mean=430)

    assert law.mean == pytest.approx(60 + 430)
    assert law.quantiles == pytest.approx((60 + 40 * 2, 60 + 140 * 2, 60 + 540 * 2))  # mean 275, so all is doubled


def test_outliers_take_their_share_of_the_bulk():
    law = WithOutliers(Beta(2, 2, 0, 100), Outliers(0.2, 1000, 2000))

    assert law.cumulative(np.array([100.0, 1500.0, 2000.0])) == pytest.approx([0.8, 0.9, 1.0])
    assert law.upper == 2000


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ShiftedLogNormal(48, 5, 0), "sigma is 0; it must be a finite number above 0"),
        (lambda: ShiftedLogNormal(-1, 5, 1), "shift is -1"),
        (lambda: ShiftedLogNormal(48, 5, 1, truncate_high=40), "hardly anything lies below it"),
        (lambda: ShiftedGamma(48, 5, 100, truncate_high=math.inf), "truncate_high is inf"),
        (lambda: Beta(1, 2000, 0, 10), "must be at most 1000"),
        (lambda: Beta(1, 2, 10, 10), "low 10 and high 10"),
        (lambda: Empirical((0, 1), (3, 2)), "ascending"),
        (lambda: Empirical((0, 1), (2, 3, 4)), "a probability for each"),
        (lambda: Empirical((0, 0.9), (2, 3)), "ascend from 0 to 1"),
        (lambda: Empirical((0, 1), (math.nan, 3)), "finite"),
        (lambda: Empirical((0, 1), (100, 200)).moved(150, 10), r"shift is 150; it must be in \[0, 150.0\)"),
        (lambda: Outliers(1.5, 1, 2), "probability is 1.5"),
        (lambda: Outliers(0.5, 2, 2), "low < high"),
        (lambda: tabulate(ShiftedLogNormal(0, 14, 1), "tenant 'x'"), f"tenant 'x': its lengths go beyond {LARGEST}"),
    ],
)
def test_impossible_laws_are_refused(make, words):
    with pytest.raises(BadInput, match=words):
        make()
