"""A prior, twenty measurements, and an interval."""

import copy

import numpy as np
import pytest

from costmodel.calibration import LEAST_HALF_WIDTH
from costmodel.guard import check_floor_source
from costmodel.prior import (
    calibrated_document,
    held_out_interval,
    least_width,
    price_of,
    read_half_width,
    told_interval,
)
from costmodel.profile import Profile
from costmodel.sources import FOLDER, read_source
from lobra.errors import BadInput

PRIOR = read_source(FOLDER / "llama2_7b_a100_40gb_floor.yaml", "floor_form")
DESCRIBED = {"gpu": "B", "model": "llama2_7b", "source": "here"}


def timed(tp: int, alpha: float, beta: float, noise: float, points: int = 24) -> Profile:
    """What an executor takes where the prior is off by alpha and beta."""
    generator = np.random.default_rng(tp)
    length = 2.0 ** generator.integers(7, 12, points)
    tokens = length * generator.integers(1, 9, points)
    empty = Profile(tp, length, tokens, length * tokens, np.ones(points))
    prior = price_of(next(fit for fit in PRIOR["fits"] if fit["tp"] == tp)).seconds(empty)
    seconds = (alpha * prior + beta) * np.exp(noise * generator.standard_normal(points))
    return Profile(tp, length, tokens, length * tokens, seconds)


def test_alpha_and_beta_reach_every_tp_even_one_that_was_not_timed():
    document, found = calibrated_document(PRIOR, [timed(1, 1.5, 4e-4, 0.0)], DESCRIBED)

    check_floor_source(document)
    assert (found.alpha, found.beta) == pytest.approx((1.5, 4e-4))
    for before, after in zip(PRIOR["fits"], document["fits"], strict=True):
        assert after["token_seconds"] == pytest.approx(1.5 * before["token_seconds"])
        assert after["fixed_seconds"] == pytest.approx(1.5 * before["fixed_seconds"] + 4e-4)
        assert after["floor_seconds"] == pytest.approx(1.5 * before["floor_seconds"] + 4e-4)
    assert document["status"] == "derived"
    assert [fit["points"] for fit in document["fits"]] == [24, 0, 0, 0]


def test_the_interval_is_held_out_and_never_narrower_than_repeats_of_one_layer():
    exact, noisy = (calibrated_document(PRIOR, [timed(1, 1.5, 0, noise)], DESCRIBED)[0] for noise in (0.0, 0.3))

    assert read_half_width(exact) == pytest.approx(LEAST_HALF_WIDTH, abs=1e-4)
    assert read_half_width(noisy) > 0.3
    assert noisy["interval"]["held_out"] == 12


def test_small_models_have_no_least_width():
    assert least_width({"model": "demo", "place": {"parameters": "3000000"}}) == 0
    assert least_width({"model": "directory", "place": {"parameters": "7000000000"}}) == LEAST_HALF_WIDTH


def test_a_fit_of_its_own_gets_an_interval_from_what_was_left_out():
    row = held_out_interval([timed(1, 1, 0, 0.1), timed(2, 1, 0, 0.1)], {"model": "demo"})
    assert row is not None
    assert row["held_out"] == 48
    assert 0.1 < row["half_width"] < 0.4
    assert "90% of further micro-batches within -" in told_interval(row)


def test_few_points_get_no_interval():
    assert held_out_interval([timed(1, 1, 0, 0.1, points=19)], {"model": "demo"}) is None
    with pytest.raises(BadInput, match="19 measured micro-batches; at least 20"):
        calibrated_document(PRIOR, [timed(1, 1, 0, 0.1, points=19)], DESCRIBED)


def test_what_does_not_belong_together_is_refused():
    other = copy.deepcopy(PRIOR)
    other["fits"] = other["fits"][1:]
    with pytest.raises(BadInput, match="it has no tp 1, which the profile timed"):
        calibrated_document(other, [timed(1, 1, 0, 0.1)], DESCRIBED)
    with pytest.raises(BadInput, match="it is of model 'llama2_7b', the profile of 'demo'"):
        calibrated_document(PRIOR, [timed(1, 1, 0, 0.1)], DESCRIBED | {"model": "demo"})
    with pytest.raises(BadInput, match="interval is nan at level"):
        read_half_width({"interval": {"level": 0.9, "half_width": float("nan"), "held_out": 3}})
