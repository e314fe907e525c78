"""The series against SciPy's own functions."""

import numpy as np
import pytest
from scipy import special

from workloads import cumulative


def test_the_normal_law_agrees_with_scipy():
    z = np.linspace(-12, 12, 1001)

    np.testing.assert_allclose(cumulative.normal(z), special.ndtr(z), rtol=1e-12)


@pytest.mark.parametrize("k", [0.1, 0.5, 1, 1.69499, 7.71605, 60, 1000])
def test_the_gamma_law_agrees_with_scipy_for_every_shape(k: float):
    x = np.linspace(-1, 5 * k + 100, 2001)

    np.testing.assert_allclose(cumulative.gamma(x, k), special.gammainc(k, np.maximum(x, 0)), atol=1e-11)


@pytest.mark.parametrize(
    ("a", "b"), [(1.3847, 4.6536), (1.8775, 8.236), (0.1, 0.1), (1, 1), (1000, 0.01), (0.01, 1000), (1000, 1000)]
)
def test_the_beta_law_agrees_with_scipy_for_every_shape(a: float, b: float):
    x = np.linspace(-0.5, 1.5, 2001)

    np.testing.assert_allclose(cumulative.beta(x, a, b), special.betainc(a, b, np.clip(x, 0, 1)), atol=1e-11)
