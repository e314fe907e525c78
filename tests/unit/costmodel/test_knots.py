"""Curves with knots: found again, never falling, refused where they could."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.knots import KNOTS, Curve, curve_body, fit_curve, read_curve, useful_knots
from costmodel.profile import Profile
from lobra.errors import BadInput

LENGTHS, ROWS = (64, 128, 200, 512, 1024, 2048, 4096, 8192), (1, 2, 3, 8)
TRUE = Curve((0.0, 512.0, 2048.0), (1e-3, 1.6e-3, 4e-3), (1.171875e-6, 1.5625e-6, 2e-6), 0.0, 5e-6, 3e-11)


def grid(seconds) -> Profile:
    """Every length with every number of rows; seconds of (rows, tokens, squares)."""
    s, b = (np.array(values, np.float64) for values in zip(*((s, b) for s in LENGTHS for b in ROWS), strict=True))
    points = zip(b, b * s, b * s**2, strict=True)
    return Profile(1, s, b * s, b * s**2, np.array([seconds(*point) for point in points]), rows=b)


def test_a_curve_is_found_again_from_its_own_points():
    profile = grid(lambda b, n, s2: TRUE.seconds(1, b, n, s2))

    found = fit_curve(profile, (512, 2048))

    assert found.of(profile) == pytest.approx(profile.seconds, rel=1e-6)
    assert (found.row, found.square) == pytest.approx((TRUE.row, TRUE.square), rel=1e-4)
    assert found.slopes == pytest.approx(TRUE.slopes, rel=1e-4)


def test_the_floor_form_is_a_curve_too():
    profile = grid(lambda _, n, s2: max(3e-3, 2e-3 + 4e-6 * n + 1e-10 * s2))

    assert np.abs(fit_curve(profile).errors(profile)).max() < 0.05


def test_one_point_and_many_points_agree():
    profile = grid(lambda b, n, s2: TRUE.seconds(1, b, n, s2))
    points = zip(profile.rows, profile.tokens, profile.squares, strict=True)

    assert [TRUE.seconds(0, *point) for point in points] == pytest.approx(list(TRUE.of(profile)), rel=1e-12)


def test_an_adapter_run_is_priced_where_the_profile_varies_it():
    plain = grid(lambda b, n, s2: TRUE.seconds(0, b, n, s2))
    runs = np.tile([1.0, 2.0, 3.0, 4.0], len(LENGTHS))
    profile = Profile(1, plain.lengths, plain.tokens, plain.squares, plain.seconds + 7e-5 * runs, runs, plain.rows)

    assert fit_curve(profile, (512, 2048)).run == pytest.approx(7e-5, rel=1e-3)


def test_a_knot_needs_measurements_on_both_sides():
    assert useful_knots(np.array([256.0, 300.0, 3000.0, 4000.0]), KNOTS) == [0.0, 256.0, 512.0]
    assert useful_knots(np.array([100.0, 8192.0]), KNOTS) == [0.0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), sigma=st.floats(0.0, 0.8))
def test_no_noise_makes_a_fitted_curve_fall(seed: int, sigma: float):
    generator = np.random.default_rng(seed)
    curve = fit_curve(grid(lambda b, n, s2: TRUE.seconds(1, b, n, s2) * generator.lognormal(0, sigma)))
    tokens = np.sort(generator.integers(1, 20000, 60))

    told = [curve.seconds(1, 1, n, n * 100) for n in tokens]

    assert told == sorted(told)
    assert min(told) >= 0
    assert curve.seconds(2, 3, 500, 90000) >= curve.seconds(1, 2, 500, 80000)


def test_a_curve_survives_its_source_file():
    again = read_curve(curve_body(TRUE))

    assert again.heights == pytest.approx(TRUE.heights, rel=1e-7)
    assert (again.knots, again.row, again.square) == (TRUE.knots, TRUE.row, TRUE.square)


def test_shares_of_a_curve_add_up_to_it():
    parts = [TRUE.scaled(0.4, 0.25), TRUE.scaled(0.6, 0.75)]

    assert sum(part.seconds(1, 2, 700, 9e4) for part in parts) == pytest.approx(TRUE.seconds(1, 2, 700, 9e4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height_seconds": [1e-3, 5e-4, 4e-3]}, "heights .* fall"),
        ({"token_seconds": [1e-6, -1e-6, 1e-6]}, "negative or none"),
        ({"square_seconds": float("nan")}, "negative or none"),
        ({"run_seconds": float("inf")}, "negative or none"),
        ({"knots": [0, 2048, 512]}, "do not ascend"),
        ({"knots": [128, 512, 2048]}, "begin at 0"),
        ({"height_seconds": [1e-3]}, "one height and one slope"),
    ],
)
def test_a_source_that_could_fall_is_refused(change: dict, message: str):
    with pytest.raises(BadInput, match=message):
        read_curve(curve_body(TRUE) | change)


def test_a_source_without_a_coefficient_is_refused():
    body = {name: value for name, value in curve_body(TRUE).items() if name != "row_seconds"}

    with pytest.raises(BadInput, match="row_seconds"):
        read_curve(body)
