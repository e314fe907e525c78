"""The forms that are compared: the two views of the cost model, and the paper's six coefficients."""

from collections.abc import Callable

import numpy as np

from costmodel.knots import fit_curve
from costmodel.profile import Profile, fit_profile
from lobra.batch import Array

Fitted = Callable[[Profile], Array]
Form = Callable[[Profile], Fitted]


def solver_view(profile: Profile) -> Fitted:
    """max(floor, fixed + token N + square S2)."""
    return fit_profile(profile).seconds


def simulator_view(profile: Profile) -> Fitted:
    """Knots in N, rows, squares."""
    return fit_curve(profile).of


def paper_form(profile: Profile) -> Fitted:
    """(c1 b + c2) s^2 + (c3 b + c4) s + (c5 b + c6) by unweighted least squares, signs free, as LobRA fits it."""
    coefficients = np.linalg.lstsq(_design(profile), profile.seconds, rcond=None)[0]
    return lambda other: _design(other) @ coefficients


def _design(profile: Profile) -> Array:
    s, b = profile.lengths, profile.tokens / profile.lengths
    return np.stack([b * s**2, s**2, b * s, s, b, np.ones_like(s)], axis=1)


VIEWS: dict[str, Form] = {"solver view": solver_view, "simulator view": simulator_view}
