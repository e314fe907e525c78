"""Two views of one profile: the floor form for solvers, curves with knots for the simulator, and what is between them.

Where forward and backward were timed apart, the simulator's view has a curve of each; else one of their sum, divided by
the forward shares of the source. The difference of the views over the measured points is the planner's model error:
what a planner cannot see because it must plan with something convex.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from costmodel.knots import Curve, curve_body, fit_curve, read_curve
from costmodel.profile import Fit, Profile
from costmodel.sources import field
from lobra.errors import BadInput


class Directions(NamedTuple):
    """The simulator's view of one layer at one tp."""

    forward: Curve
    backward: Curve


def view_body(profile: Profile, fit: Fit, apart: tuple[Profile, Profile] | None = None) -> dict[str, Any]:
    """What a source file says of the simulator's view; apart: the same points, forward and backward."""
    if apart is None:
        whole = fit_curve(profile)
        curves, told = {"whole": curve_body(whole)}, whole.of(profile)
    else:
        forward, backward = (fit_curve(part) for part in apart)
        curves = {"forward": curve_body(forward), "backward": curve_body(backward)}
        told = forward.of(apart[0]) + backward.of(apart[1])
    errors, difference = np.abs(told / profile.seconds - 1), np.abs(fit.seconds(profile) / told - 1)
    return {
        "simulator": {**curves, "mean_error": _rounded(errors.mean()), "largest_error": _rounded(errors.max())},
        "view_difference": {"mean": _rounded(difference.mean()), "largest": _rounded(difference.max())},
    }


def read_views(source: Mapping[str, Any], factors: Mapping[int, float]) -> dict[int, Directions]:
    """Curves by tp, times the factor of each; BadInput where the source has none."""
    share = field(source, "forward_share")
    linear, attention = float(field(share, "linear")), float(field(share, "attention"))
    found = {}
    for fit in field(source, "fits"):
        tp, body = int(field(fit, "tp")), fit.get("simulator")
        if tp not in factors:
            continue
        if body is None:
            raise BadInput(
                f"cost file: tp {tp} has no curves (a fit from a prior has none); fit its profile with `lobra fit` and "
                "no prior, or use cost=fitted"
            )
        if "whole" in body:
            whole = read_curve(body["whole"])
            forward, backward = whole.scaled(linear, attention), whole.scaled(1 - linear, 1 - attention)
        else:
            forward, backward = (read_curve(field(body, name)) for name in Directions._fields)
        found[tp] = Directions(*(curve.scaled(factors[tp], factors[tp]) for curve in (forward, backward)))
    return found


def view_note(source: Mapping[str, Any]) -> str:
    """The planner's model error of a source, as a reader is told of it."""
    apart = {int(field(fit, "tp")): field(fit, "view_difference") for fit in field(source, "fits")}
    return difference_note({tp: (field(each, "mean"), field(each, "largest")) for tp, each in apart.items()})


def difference_note(apart: Mapping[int, tuple[float, float]]) -> str:
    """The same of mean and largest relative differences by tp."""
    told = ", ".join(f"tp {tp} {mean:.1%} (at most {largest:.1%})" for tp, (mean, largest) in apart.items())
    return f"simulated with knots, planned with the floor form, which differs by {told}"


def _rounded(value: float) -> float:
    return round(float(value), 4)
