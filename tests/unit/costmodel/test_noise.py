"""Jitter and stragglers out of repeats."""

import numpy as np
import pytest

from costmodel.noise import fit_noise, noise_row, read_noise
from costmodel.samples import Samples, Timed
from lobra.errors import BadInput
from sim.disturbance import Noise


def samples(repeats: list[list[float]], forward: float = 0.5) -> Samples:
    timed = tuple(
        Timed(1, 0, False, 1, 64, 64, 4096, 1, forward * each[0], (1 - forward) * each[0], 0.0, 0, 0.0, tuple(each))
        for each in repeats
    )
    return Samples(timed, {"layers": "4"}, ())


def drawn(sigma: float, points: int = 400, repeats: int = 5, stragglers: float = 0.0, factor: float = 3.0):
    generator = np.random.default_rng(11)
    seconds = np.exp(sigma * generator.standard_normal((points, repeats)))
    seconds[generator.random((points, repeats)) < stragglers] *= factor
    return (seconds * generator.uniform(0.1, 1, (points, 1))).tolist()


@pytest.mark.parametrize("sigma", [0.02, 0.2])
def test_the_jitter_of_the_whole_is_found_and_shared_out_to_forward_and_backward(sigma):
    found = fit_noise(samples(drawn(sigma)))
    assert found.jitter_sigma == pytest.approx(sigma * 2**0.5, rel=0.06)
    assert (found.straggler_probability, found.points, found.repeats) == (0, 400, 2000)


def test_what_is_fitted_and_played_again_varies_as_much_as_what_was_measured():
    found = fit_noise(samples(drawn(0.1), forward=0.3))
    factors = Noise(1, found.jitter_sigma).jitter(0, 0, 0, 20_000)
    assert np.log(0.3 * factors[:, 0] + 0.7 * factors[:, 1]).std() == pytest.approx(0.1, rel=0.06)


def test_stragglers_are_told_from_jitter():
    found = fit_noise(samples(drawn(0.03, stragglers=0.04)))
    assert found.straggler_probability == pytest.approx(0.04, abs=0.012)
    assert found.straggler_factor == pytest.approx(3.0, rel=0.03)
    assert found.jitter_sigma == pytest.approx(0.03 * 2**0.5, rel=0.15)


def test_equal_repeats_have_no_noise():
    found = fit_noise(samples([[1.0, 1.0, 1.0]] * 5))
    assert (found.jitter_sigma, found.straggler_probability, found.straggler_factor) == (0, 0, 1)


def test_points_that_were_timed_once_say_nothing():
    with pytest.raises(BadInput, match="4 points were timed more than once; at least 5 are needed"):
        fit_noise(samples([[1.0]] * 9 + [[1.0, 1.1]] * 4))


def test_the_file_keeps_it():
    found = fit_noise(samples(drawn(0.03, stragglers=0.04)))
    assert read_noise({"step_noise": noise_row(found)}) == found


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (None, "holds no step_noise"),
        ({"jitter_sigma": -1, "straggler_probability": 0, "straggler_factor": 1}, "jitter >= 0"),
        ({"jitter_sigma": float("nan"), "straggler_probability": 0, "straggler_factor": 1}, "jitter >= 0"),
        ({"jitter_sigma": 0, "straggler_probability": 2, "straggler_factor": 1}, "jitter >= 0"),
    ],
)
def test_a_file_without_noise_or_with_an_impossible_one_is_refused(row, said):
    with pytest.raises(BadInput, match="cost file") as refusal:
        read_noise({"step_noise": row})
    assert said in str(refusal.value)
