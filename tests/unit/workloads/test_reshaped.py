"""Laws of lengths with another shape about the same mean."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.errors import BadInput
from workloads.catalogue import named_workload
from workloads.lengths import ShiftedLogNormal
from workloads.reshaped import reshaped
from workloads.table import tabulate

LAW = ShiftedLogNormal(50.0, 5.5, 0.4)


def moments(spread, skew):
    return tabulate(reshaped(LAW, spread, skew, "law"), "law").moments()


def test_factors_of_one_leave_a_law_as_it_is():
    assert reshaped(LAW, 1.0, 1.0, "law") is LAW


@settings(max_examples=15, deadline=None)
@given(st.floats(0.5, 1.5))
def test_spread_multiplies_the_deviation_and_keeps_mean_and_skewness(spread):
    before, after = moments(1.0, 1.0), moments(spread, 1.0)
    assert after.mean == pytest.approx(before.mean, rel=0.005)
    assert after.deviation == pytest.approx(spread * before.deviation, rel=0.01)
    assert after.skewness == pytest.approx(before.skewness, rel=0.05)


@pytest.mark.parametrize(("skew", "longer"), [(0.7, False), (1.3, True)])
def test_skew_bends_the_tail_at_the_same_mean_and_deviation(skew, longer):
    before, after = moments(1.0, 1.0), moments(1.0, skew)
    assert after.mean == pytest.approx(before.mean, rel=0.005)
    assert after.deviation == pytest.approx(before.deviation, rel=0.01)
    assert (after.skewness > before.skewness) is longer


def test_no_length_falls_below_one_token():
    table = tabulate(reshaped(ShiftedLogNormal(1.0, 3.0, 1.0), 3.0, 1.0, "law"), "law")
    assert table.cumulative[0] > 0.1
    assert table.sample(np.random.default_rng(0), 100).min() == 1


@pytest.mark.parametrize(
    ("spread", "skew", "name"), [(0.0, 1.0, "spread"), (1.0, 9.0, "skew"), (float("nan"), 1, "spread")]
)
def test_factors_out_of_range_are_refused(spread, skew, name):
    with pytest.raises(BadInput, match=f"^{name} is .*; give a factor from 0.1 to 3"):
        named_workload("lobra4", spread=spread, skew=skew)
