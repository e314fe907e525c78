"""Units that went wrong in other cost models."""

import numpy as np
import pytest

from costmodel.communication import bytes_per_second, point_to_point_seconds
from costmodel.roofline import roofline_seconds
from lobra.spec import Link


def test_a_roofline_takes_tera_and_giga_in_one_unit():
    """astra-sim#148, #208, PR#217, aliyun/SimAI#93: TFLOP/s times 1e12, but GB/s times 1. 10^12 FLOP, 10^10 bytes."""
    assert 1e12 / 312e12 == pytest.approx(3.205e-3, rel=1e-3)
    assert roofline_seconds(1e12, 1e10, teraflops=312, gigabytes_per_second=2000) == pytest.approx(5.0e-3, rel=1e-9)
    assert roofline_seconds(1e12, 1e10, teraflops=312, gigabytes_per_second=1000) == pytest.approx(10.0e-3, rel=1e-9)
    assert roofline_seconds(1e12, 1.0, teraflops=312, gigabytes_per_second=2000) == pytest.approx(1e12 / 312e12)


def test_a_gigabyte_is_a_billion_bytes_and_half_the_bandwidth_takes_twice_as_long():
    """inference-sim/inference-sim#101, JustVugg/colibri#924: one metric in s among others in ms."""
    fast, slow = Link(100, 0), Link(50, 0)

    assert point_to_point_seconds(slow, 1e9) == pytest.approx(2 * point_to_point_seconds(fast, 1e9), rel=1e-9)
    share = bytes_per_second(fast) / 100e9
    assert 0 < share <= 1
    assert point_to_point_seconds(fast, 1e9) == pytest.approx(1e9 / (100e9 * share), rel=1e-9)
    assert np.isclose(point_to_point_seconds(Link(100, 7), 0.0), 7e-6)
