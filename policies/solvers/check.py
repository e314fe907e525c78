"""No claim of a solver is believed unchecked: feasibility, objective and bound by our own arithmetic.

Open and commercial solvers alike have returned wrong optima for some seeds; a wrong claim raises instead of becoming
a plan. Integers are rounded first, and the rounded point is what is checked and returned.
"""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Array
from policies.solvers.model import Program

TOLERANCE = 1e-6  # of a row or bound, relative to the size of what is summed; solvers work with 1e-6 to 1e-9
INTEGRALITY = 1e-5  # how far from whole an integer may be handed over, before rounding


class WrongClaim(RuntimeError):
    """A solver called a point feasible, or an objective or a bound right, that is not."""


def rounded(program: Program, values: Array) -> Array:
    """The point with its integers exactly whole and inside the bounds by at most a tolerance's correction."""
    values = np.array(values, dtype=np.float64)
    whole = program.integer
    if np.any(np.abs(values[whole] - np.rint(values[whole])) > INTEGRALITY):
        raise WrongClaim("a solver returned a fraction for an integer column")
    values[whole] = np.rint(values[whole])
    slack = TOLERANCE * np.maximum(1.0, np.abs(values))
    if np.any(values < program.low - slack) or np.any(values > program.high + slack):
        raise WrongClaim("a solver returned a point outside the column bounds")
    return np.clip(values, program.low, program.high)


def violation(program: Program, values: Array) -> float:
    """The largest row violation, relative to the size of the terms summed in that row."""
    if not program.matrix.shape[0]:
        return 0.0
    activity = program.matrix @ values
    size = np.maximum(1.0, abs(program.matrix) @ np.abs(values))
    below = np.where(np.isfinite(program.row_low), program.row_low - activity, 0.0)
    above = np.where(np.isfinite(program.row_high), activity - program.row_high, 0.0)
    return float(np.max(np.maximum(below, above) / size, initial=0.0))


def slack(program: Program, point: Array) -> float:
    """How far objectives may differ by rounding: a small part of the terms summed."""
    return 1e-4 * max(1e-6, float(np.abs(program.cost) @ np.abs(point)))


def checked(program: Program, values: Array, claimed: float, bound: float) -> tuple[Array, float]:
    """The rounded point and its cost by our own sum; WrongClaim where the solver's account of it does not hold."""
    point = rounded(program, values)
    amount = violation(program, point)
    if amount > TOLERANCE * 10:  # rounding integers moves a row by a little more than the solver's own tolerance
        raise WrongClaim(f"a solver returned a point that violates a row by {amount:.2e} of its size")
    objective = program.objective(point)
    if abs(objective - claimed) > slack(program, point):
        raise WrongClaim(f"a solver claimed objective {claimed!r}, but its point costs {objective!r}")
    if bound > objective + slack(program, point):
        raise WrongClaim(f"a solver claimed bound {bound!r}, but a feasible point costs {objective!r}")
    return point, objective


def best_incumbent(program: Program, incumbents: Sequence[Array]) -> Array | None:
    """The cheapest of these points that is truly feasible; None where none is."""
    best, lowest = None, float("inf")
    for values in incumbents:
        try:
            point = rounded(program, values)
        except WrongClaim:
            continue
        cost = program.objective(point)
        if violation(program, point) <= TOLERANCE * 10 and cost < lowest:
            best, lowest = point, cost
    return best
