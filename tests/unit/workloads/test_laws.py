"""Laws of lengths as they stand in YAML."""

import pytest

from lobra.errors import BadInput
from workloads.laws import read_law
from workloads.lengths import Beta, Empirical, Outliers, ShiftedGamma, ShiftedLogNormal, WithOutliers
from workloads.quantiles import shipped_table


@pytest.mark.parametrize(
    ("body", "law"),
    [
        (
            {"family": "shifted_lognormal", "shift": 48, "mu": 4.4, "sigma": 1.2, "truncate_high": 7795.3},
            ShiftedLogNormal(48, 4.4, 1.2, 7795.3),
        ),
        ({"family": "shifted_gamma", "shift": 70, "k": 7.7, "scale_mean": 593}, ShiftedGamma(70, 7.7, 593)),
        ({"family": "beta", "alpha": 1.4, "beta": 4.7, "low": 10, "high": 99}, Beta(1.4, 4.7, 10, 99)),
        ({"family": "empirical", "base": "gsm8k"}, shipped_table("gsm8k")),
        ({"family": "empirical", "quantiles": [1, 2, 6]}, Empirical((0, 0.5, 1), (1, 2, 6))),
        (
            {"family": "shifted_empirical", "quantiles": [100, 200, 600], "shift": 60, "scale_mean": 430},
            Empirical((0, 0.5, 1), (100, 200, 600)).moved(60, 430),
        ),
        (
            {
                "family": "beta",
                "alpha": 1,
                "beta": 2,
                "low": 1,
                "high": 9,
                "outliers": {"probability": 0.1, "uniform": [20, 30]},
            },
            WithOutliers(Beta(1, 2, 1, 9), Outliers(0.1, 20, 30)),
        ),
    ],
)
def test_every_family_can_be_written(body, law):
    assert read_law(body, "t") == law


BETA = {"family": "beta", "alpha": 1, "beta": 2, "low": 1, "high": 9}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("beta", "t: family is None; choose one of"),
        ({"family": "gamma"}, "t: family is 'gamma'; did you mean shifted_gamma"),
        (BETA | {"hihg": 3}, "there is no key 'hihg'; did you mean high"),
        ({"family": "beta", "alpha": 1}, "the key 'beta' is missing"),
        (BETA | {"low": "1"}, "t: low: expected a finite number, got '1'"),
        (BETA | {"low": 10}, "t: beta: low 10.0 and high 9.0"),
        (BETA | {"outliers": {"probability": 2, "uniform": [1, 2]}}, "t: outliers: probability is 2"),
        (BETA | {"outliers": {"probability": 0.1, "uniform": [1]}}, "t: outliers: uniform is"),
        (BETA | {"outliers": {"probability": 0.1}}, "the key 'uniform' is missing"),
        ({"family": "empirical"}, "give either base, a shipped table, or quantiles"),
        ({"family": "empirical", "base": "gsm"}, "no length table 'gsm'; did you mean gsm8k"),
        ({"family": "empirical", "quantiles": 3}, "quantiles is 3"),
        ({"family": "empirical", "quantiles": [3, 2]}, "t: empirical: its quantiles must be"),
        ({"family": "empirical", "quantiles": [3]}, "at least two quantiles"),
    ],
)
def test_what_is_wrong_is_named(body, words):
    with pytest.raises(BadInput, match=words):
        read_law(body, "t")
