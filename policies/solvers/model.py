"""What a solver is asked, and what it answers."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lobra.batch import Array, frozen
from lobra.errors import BadInput

Status = Literal["optimal", "feasible", "time_limit", "infeasible", "unbounded", "unknown"]


@dataclass(frozen=True, slots=True)
class Limits:
    """When a search stops."""

    seconds: float  # a guard: results that hit it may differ between machines
    relative_gap: float
    nodes: int | None = None  # of a search tree: the same on every machine; None: as many as it takes
    presolve: bool = True  # off where that is known to cost more than it saves


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Minimise cost @ x under row_low <= matrix @ x <= row_high, low <= x <= high, and x[integer] whole.

    Shapes: n columns, m rows; `matrix` is a scipy.sparse matrix or array [m, n]. Bounds may be infinite.
    """

    cost: Array  # float64 [n]
    matrix: Any  # scipy.sparse, float64 [m, n]
    row_low: Array  # float64 [m]
    row_high: Array  # float64 [m]
    low: Array  # float64 [n]
    high: Array  # float64 [n]
    integer: Array  # bool [n]

    def __post_init__(self) -> None:
        for field in ("cost", "row_low", "row_high", "low", "high"):
            object.__setattr__(self, field, frozen(getattr(self, field), np.float64))
        object.__setattr__(self, "integer", frozen(self.integer, np.bool_))
        rows, columns = self.matrix.shape
        for field, length in (("row_low", rows), ("row_high", rows), ("cost", columns), ("low", columns)):
            self._check_length(field, length)
        self._check_length("high", columns)
        self._check_length("integer", columns)
        if not np.isfinite(self.cost).all() or not np.isfinite(self.matrix.data).all():
            raise BadInput("program: cost and matrix must be finite; leave impossible columns out or fix them to 0")
        if np.isnan([*self.row_low, *self.row_high, *self.low, *self.high]).any():
            raise BadInput("program: a bound is not a number; use -inf or inf where there is none")

    def _check_length(self, field: str, length: int) -> None:
        values = getattr(self, field)
        if values.shape != (length,):
            raise BadInput(f"program: {field} has shape {values.shape}, but the matrix asks for ({length},)")

    def objective(self, values: Array) -> float:
        """What these values cost."""
        return float(self.cost @ values)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The best point found, and how good it is known to be.

    `optimal` is proven within the asked gap, `feasible` is a point without that proof (a limit other than time),
    `time_limit` may come with a point or without.
    """

    status: Status
    values: Array | None  # float64 [n], integers exactly whole; None: no point was found
    objective: float  # of the values by our own arithmetic; inf without a point
    bound: float  # no point can cost less, says the solver; -inf where it says nothing
    solver: str  # name and version
    seconds: float
    notice: str | None = None  # what a reader must know: a fallback, a limit that had to be enforced
    duals: Array | None = None  # float64 [m], what more of a row costs; of optimal linear programs, as the solver says

    @property
    def gap(self) -> float:
        """Relative distance of the point from the bound: 0 is proven optimal, inf is unknown."""
        if self.values is None or not np.isfinite(self.bound):
            return float("inf")
        return max(0.0, self.objective - self.bound) / max(abs(self.objective), 1e-12)
