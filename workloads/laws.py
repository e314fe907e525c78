"""Laws of lengths as they stand in YAML: `{family: beta, alpha: 1.4, beta: 4.7, low: 1750, high: 11138}`.

Families: shifted_lognormal, shifted_gamma, beta, empirical (base, or quantiles at equal steps of probability),
shifted_empirical (base or quantiles, shift, scale_mean). Each may have `outliers: {probability, uniform: [low, high]}`.
A base is the name of a shipped quantile table.
"""

from typing import Any

import numpy as np

from lobra.errors import BadInput
from workloads.lengths import Beta, Empirical, LengthFamily, Outliers, ShiftedGamma, ShiftedLogNormal, WithOutliers
from workloads.quantiles import shipped_table
from workloads.strict_yaml import mapping, nearest, number, show

PARAMETERS = {
    "shifted_lognormal": ("shift", "mu", "sigma"),
    "shifted_gamma": ("shift", "k", "scale_mean"),
    "beta": ("alpha", "beta", "low", "high"),
    "empirical": (),
    "shifted_empirical": ("shift", "scale_mean"),
}
OPTIONAL = {
    "shifted_lognormal": ("truncate_high",),
    "shifted_gamma": ("truncate_high",),
    "beta": (),
    "empirical": ("base", "quantiles"),
    "shifted_empirical": ("base", "quantiles"),
}


def read_law(body: Any, owner: str) -> LengthFamily:
    """The law that this mapping describes; BadInput names the owner and the key."""
    name = body.get("family") if isinstance(body, dict) else None
    if not isinstance(name, str) or name not in PARAMETERS:
        raise BadInput(f"{owner}: family is {show(name)}; {nearest(str(name), PARAMETERS)}")
    required, optional = PARAMETERS[name], OPTIONAL[name]
    body = mapping(body, f"{owner}, {name}", ("family", "outliers", *required, *optional), required)
    scalars = (key for key in body if key in required or key == "truncate_high")
    numbers = {key: number(body[key], f"{owner}: {key}") for key in scalars}
    try:
        bulk = _bulk(name, body, numbers, owner)
        return WithOutliers(bulk, _outliers(body["outliers"], owner)) if "outliers" in body else bulk
    except BadInput as error:
        text = str(error)
        raise BadInput(text if text.startswith(owner) else f"{owner}: {text}") from None


def _bulk(name: str, body: dict[str, Any], numbers: dict[str, float], owner: str) -> LengthFamily:
    if name == "shifted_lognormal":
        return ShiftedLogNormal(**numbers)
    if name == "shifted_gamma":
        return ShiftedGamma(**numbers)
    if name == "beta":
        return Beta(**numbers)
    base = _base(body, owner)
    return base if name == "empirical" else base.moved(**numbers)


def _base(body: dict[str, Any], owner: str) -> Empirical:
    if ("base" in body) == ("quantiles" in body):
        raise BadInput(f"{owner}: give either base, a shipped table, or quantiles, a list of numbers")
    if "base" in body:
        return shipped_table(str(body["base"]))
    quantiles = body["quantiles"]
    if not isinstance(quantiles, list):
        raise BadInput(f"{owner}: quantiles is {show(quantiles)}; it must be a list of ascending numbers")
    values = tuple(number(value, f"{owner}: quantiles") for value in quantiles)
    return Empirical(tuple(np.linspace(0, 1, len(values)).tolist()), values)


def _outliers(body: Any, owner: str) -> Outliers:
    keys = ("probability", "uniform")
    body = mapping(body, f"{owner}: outliers", keys, keys)
    ends = body["uniform"]
    if not isinstance(ends, list) or len(ends) != 2:
        raise BadInput(f"{owner}: outliers: uniform is {show(ends)}; it must be a list of two numbers, low and high")
    low, high = (number(end, f"{owner}: outliers: uniform") for end in ends)
    return Outliers(number(body["probability"], f"{owner}: outliers: probability"), low, high)
