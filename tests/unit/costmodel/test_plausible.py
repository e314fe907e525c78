"""Profiles that cannot be true, and fits a reader must be warned of."""

from pathlib import Path

import numpy as np
import pytest

from costmodel.fit import describe
from costmodel.hardware import cluster_spec, model_spec
from costmodel.plausible import fit_warnings, refuse_contradictions, refuse_speed
from costmodel.profile import Profile, fit_profile
from lobra.errors import BadInput

SEVEN, GPU, HERE = model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 8).gpu, Path("p.csv")


def profile(scale: float = 1.0) -> Profile:
    """Like the 7B layer of the paper: 2.5 ms and 4.8 us a token."""
    length, count = (grid.ravel().astype(float) for grid in np.meshgrid([128, 512, 2048], [1, 2, 4, 8]))
    tokens, squares = length * count, length**2 * count
    return Profile(1, length, tokens, squares, scale * (2.5e-3 + 4.8e-6 * tokens + 1.3e-10 * squares))


def test_a_true_profile_passes():
    refuse_contradictions(HERE, [profile()])
    refuse_speed(HERE, [profile()], SEVEN, GPU)
    assert fit_warnings([describe(profile(), fit_profile(profile()))]) == []


@pytest.mark.parametrize("scale", [1e3, 1e-3])
def test_a_whole_table_off_by_a_thousand_is_refused(scale):
    with pytest.raises(BadInput, match=r"operations a second and GPU, but A100-40GB peaks at 3\.1e\+14"):
        refuse_speed(HERE, [profile(scale)], SEVEN, GPU)


@pytest.mark.parametrize("scale", [1e3, 1e-3])
@pytest.mark.parametrize("position", range(12))
def test_a_single_point_off_by_a_thousand_is_refused_wherever_it_stands(position, scale):
    damaged = profile()
    damaged.seconds[position] *= scale
    with pytest.raises(BadInput, match="is it off by a factor of a thousand"):
        refuse_contradictions(HERE, [damaged])


def test_a_form_that_misses_its_points_is_warned_of():
    wild = profile()
    wild.seconds[::2] *= 2.5
    told = fit_warnings([describe(wild, fit_profile(wild))])
    assert "tp 1: the form misses its own points by" in told[0]


def test_times_that_do_not_grow_are_warned_of():
    flat = profile()
    flat.seconds[:] = 1e-3
    told = fit_warnings([describe(flat, fit_profile(flat))])
    assert told == ["tp 1: the fitted time does not grow with the tokens; profile larger micro-batches"]
