"""A prior made into an executor's cost model: `lobra fit SAMPLES prior=FILE`, and the interval of any fit.

The prior is a source of layer times of the same model: kernel tables, a roofline, another engine or machine. From at
least twenty measured micro-batches come alpha and beta, one pair for all tp, and a conformal interval. What the profile
did not time, such as another tp or longer sequences, keeps the prior's shape: that is what a prior is for.

A fit without a prior gets its interval from held-out residuals: every fifth point of each tp left out in turn.
"""

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

import numpy as np

from costmodel.calibration import LEAST, LEAST_HALF_WIDTH, LEVEL, Calibration, calibrate
from costmodel.guard import check_floor_source
from costmodel.profile import Fit, Profile, fit_profile
from costmodel.sources import field
from lobra.batch import Array
from lobra.errors import BadInput

FOLDS = 5
LARGE = 4e9  # parameters: from here on the paper's authors' three measurements bound every width from below


def price_of(fit: Mapping[str, Any]) -> Fit:
    """The floor form of a row of a source file."""
    names = ("floor", "fixed", "token", "square", "run")
    return Fit(*(float(field(fit, f"{name}_seconds")) for name in names))


def calibrated_document(
    prior: Mapping[str, Any], profiles: Sequence[Profile], described: Mapping[str, Any], *, seed: int = 0
) -> tuple[dict[str, Any], Calibration]:
    """The content of a source file: the prior's layer times as this executor takes them.

    profiles: measured layer times by tp; described: gpu, model and where they come from.
    """
    check_floor_source(prior)
    if field(prior, "model") != described["model"]:
        raise BadInput(f"prior: it is of model '{prior['model']}', the profile of '{described['model']}'")
    prices = {int(fit["tp"]): price_of(fit) for fit in prior["fits"]}
    missing = [profile.tp for profile in profiles if profile.tp not in prices]
    if missing:
        raise BadInput(f"prior: it has no tp {missing[0]}, which the profile timed; it has tp {sorted(prices)}")
    told = np.concatenate([prices[profile.tp].seconds(profile) for profile in profiles])
    measured = np.concatenate([profile.seconds for profile in profiles])
    found = calibrate(told, measured, least=least_width(described), seed=seed)
    counts = {profile.tp: len(profile.seconds) for profile in profiles}
    rows = [_row(fit, found, counts.get(int(fit["tp"]), 0)) for fit in prior["fits"]]
    errors = np.abs(found.seconds(told) / measured - 1)
    for row in rows:
        row |= {"mean_error": round(float(errors.mean()), 4), "largest_error": round(float(errors.max()), 4)}
    source = (
        f"{field(prior, 'source')}; times {found.alpha:.4g} plus {found.beta * 1e3:.4g} ms a layer, from "
        f"{len(measured)} micro-batches ({described['source']})"
    )
    whole = {"schema": 1, "kind": "floor_form", **described, "status": "derived", "source": source}
    return whole | {
        "calibration": {"alpha": _short(found.alpha), "beta_seconds": _short(found.beta), "fitted": found.fitted},
        "interval": interval_row(found),
        "forward_share": dict(field(prior, "forward_share")),
        "fits": rows,
    }, found


def held_out_interval(profiles: Sequence[Profile], described: Mapping[str, Any]) -> dict[str, Any] | None:
    """The interval of the floor form fitted to these profiles; None for fewer than twenty points."""
    if sum(len(profile.seconds) for profile in profiles) < LEAST:
        return None
    told, measured = (np.concatenate(parts) for parts in zip(*map(_held_out, profiles), strict=True))
    return interval_row(calibrate(told, measured, least=least_width(described), fit=False))


def interval_row(found: Calibration) -> dict[str, Any]:
    """An interval as it stands in a source file."""
    return {"level": found.level, "half_width": round(found.half_width, 4), "held_out": found.held_out}


def read_half_width(source: Mapping[str, Any]) -> float:
    """The half-width of a file's 90 % interval, of the logarithm; 0 where it has none."""
    row = source.get("interval")
    if row is None:
        return 0.0
    level, width = float(field(row, "level")), float(field(row, "half_width"))
    if level != LEVEL or not 0 <= width < float("inf"):
        raise BadInput(f"cost file: interval is {width} at level {level}; it must be 0 or more at level {LEVEL}")
    return width


def least_width(described: Mapping[str, Any]) -> float:
    """The least half-width: of a model of 7B or more what one and the same layer differed by, else none."""
    parameters = (described.get("place") or {}).get("parameters")
    large = float(parameters) >= LARGE if parameters is not None else "7b" in str(described["model"]).lower()
    return LEAST_HALF_WIDTH if large else 0.0


def told_interval(row: Mapping[str, Any]) -> str:
    """The same for people."""
    width, level = float(row["half_width"]), float(row["level"])
    low, high = 1 - exp(-width), exp(width) - 1
    return f"{level:.0%} of further micro-batches within -{low:.1%} to +{high:.1%} ({row['held_out']} held out)"


def _held_out(profile: Profile) -> tuple[Array, Array]:
    """What the form says of points that it was not fitted to, and what they took."""
    fold = np.arange(len(profile.seconds)) % FOLDS
    told = np.empty(len(fold))
    for number in range(FOLDS):
        out = fold == number
        if out.any():
            told[out] = fit_profile(profile.part(~out)).seconds(profile.part(out))
    return np.maximum(told, np.finfo(np.float64).tiny), profile.seconds


def _row(fit: Mapping[str, Any], found: Calibration, points: int) -> dict[str, Any]:
    price = price_of(fit)
    return {
        "tp": fit["tp"],
        "floor_seconds": _short(found.alpha * price.floor + found.beta),
        "fixed_seconds": _short(found.alpha * price.fixed + found.beta),
        "run_seconds": _short(found.alpha * price.run),
        "token_seconds": _short(found.alpha * price.token),
        "square_seconds": _short(found.alpha * price.square),
        "points": points,
        "tokens": list(field(fit, "tokens")),
        "lengths": list(field(fit, "lengths")),
    }


def _short(value: float) -> float:
    return float(f"{value:.8g}")
