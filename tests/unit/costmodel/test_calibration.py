"""Alpha, beta and intervals that keep what they promise."""

from math import exp, log

import numpy as np
import pytest
from scipy.stats import binom

from costmodel.calibration import (
    LEAST_HALF_WIDTH,
    across_groups,
    calibrate,
    exact_coverage,
    half_width,
    scale_and_start,
    within_groups,
)
from lobra.errors import BadInput


def measured_like(prior, seed: int, noise: float = 0.1, alpha: float = 1.3, beta: float = 2e-3):
    return (alpha * prior + beta) * np.exp(noise * np.random.default_rng(seed).standard_normal(len(prior)))


def priors(n: int, seed: int = 7):
    return np.exp(np.random.default_rng(seed).uniform(log(1e-3), log(1e-1), n))


def test_exact_measurements_give_alpha_and_beta_back():
    prior = priors(30)
    assert scale_and_start(prior, 1.3 * prior + 2e-3) == pytest.approx((1.3, 2e-3))


def test_neither_alpha_nor_beta_is_ever_negative():
    prior = priors(30)
    alpha, beta = scale_and_start(prior, np.maximum(prior - 5e-4, 1e-5))
    assert alpha > 0
    assert beta == 0


def test_the_half_width_is_the_conformal_rank():
    residuals = np.arange(1.0, 20.0) / 100  # 19 of them: rank ceil(20 * 0.9) = 18
    assert half_width(residuals, 0.9) == 0.18
    assert half_width(residuals[:9], 0.9) == 0.09


def test_too_few_for_the_level_is_refused():
    with pytest.raises(BadInput, match=r"8 held-out measurements at level 0\.9; it takes 9"):
        half_width(np.ones(8), 0.9)
    with pytest.raises(BadInput, match="19 measured micro-batches; at least 20"):
        calibrate(priors(19), priors(19))


def test_the_interval_covers_further_measurements_at_its_level():
    prior, told = priors(400), priors(60, seed=3)
    shares = [
        calibrate(told, measured_like(told, seed)).covers(prior, measured_like(prior, 1000 + seed)).mean()
        for seed in range(40)
    ]
    assert 0.88 <= np.mean(shares) <= 0.96  # (n + 1) level rounded up leaves 28 / 31 to 0.935 at n = 30


def test_the_width_never_falls_below_what_one_layer_differs_by():
    prior = priors(40)
    found = calibrate(prior, 1.1 * prior, least=LEAST_HALF_WIDTH)
    low, high = found.interval(np.array([0.01]))

    assert high / low == pytest.approx([14.6 / 12.5])
    assert exp(2 * LEAST_HALF_WIDTH) == pytest.approx(14.6 / 12.5)


def test_a_prior_that_stands_keeps_its_seconds():
    prior = priors(40)
    found = calibrate(prior, measured_like(prior, 1, alpha=1.0, beta=0.0), fit=False)
    assert found.seconds(prior).tolist() == prior.tolist()
    assert found.held_out == 40


def test_the_same_seed_gives_the_same_calibration():
    prior = priors(50)
    assert calibrate(prior, measured_like(prior, 5), seed=3) == calibrate(prior, measured_like(prior, 5), seed=3)


@pytest.mark.parametrize(("covered", "holds"), [(36, True), (40, False), (30, False), (32, True)])
def test_the_binomial_test_is_exact(covered, holds):
    found = exact_coverage(np.arange(40) < covered, np.ones(40), 0.9)
    chances = binom.pmf(np.arange(41), 40, 0.9)

    assert found.p_value == pytest.approx(chances[chances <= chances[covered] * (1 + 1e-7)].sum())
    assert found.holds == holds


def two_groups(n: int = 200):
    prior = priors(2 * n)
    groups = [("7B", 1)] * n + [("7B", 8)] * n
    measured = np.concatenate([measured_like(prior[:n], 1, 0.02, 1, 0), measured_like(prior[n:], 2, 0.3, 1, 0)])
    return prior, measured, groups


def test_groups_of_unequal_noise_are_covered_each_by_its_own_width():
    prior, measured, groups = two_groups()
    found = within_groups(prior, measured, groups)

    assert found.n == 200
    assert found.holds
    assert within_groups(prior, measured, groups) == found


def test_a_group_that_nobody_measured_may_fall_out_and_the_test_says_so():
    prior, measured, groups = two_groups()
    found = across_groups(prior, measured, groups)
    assert not found.holds
    assert found.n == 400


def test_small_groups_share_a_width():
    prior = priors(40)
    found = within_groups(prior, measured_like(prior, 1, 0.1, 1, 0), [number // 4 for number in range(40)])
    assert found.n == 20


@pytest.mark.parametrize("wrong", [np.nan, 0.0, -1.0, np.inf])
def test_impossible_seconds_are_refused(wrong):
    prior = priors(30)
    with pytest.raises(BadInput, match="measured seconds must be finite numbers above 0"):
        calibrate(prior, np.append(prior[1:], wrong))
