"""Gurobi: faster on large mixed-integer programs, where it is installed and its licence allows.

The wheel's own licence solves 2000 columns and rows at most and expires; both show only when it is asked, so the
caller must be ready for Unusable. Source of the error numbers: Gurobi's reference of error codes.
"""

from typing import Any

import numpy as np

from lobra.batch import Array
from policies.solvers.highs import DUAL_TOLERANCE, SEED, Answer
from policies.solvers.model import Limits, Program, Status

LICENCE_ERRORS = {10009: "has no valid licence", 10010: "has a licence too small for this program"}


class Unusable(RuntimeError):
    """Gurobi cannot answer here: not installed, not licensed, or not for a program of this size."""


def answer(program: Program, limits: Limits, start: Array | None = None) -> tuple[Answer, str]:
    """Gurobi's answer and its name; Unusable where it has none to give; `start` is a feasible point to begin at."""
    try:
        import gurobipy  # noqa: PLC0415  # optional: absent or broken on many machines
    except ImportError as error:
        raise Unusable(f"Gurobi cannot be imported ({error})") from None
    name = f"Gurobi {'.'.join(map(str, gurobipy.gurobi.version()))}"
    try:
        found = _ask(program, limits, start)
    except gurobipy.GurobiError as error:
        reason = LICENCE_ERRORS.get(error.errno, f"failed with error {error.errno}")
        raise Unusable(f"{name} {reason}") from None
    return found, name


def _ask(program: Program, limits: Limits, start: Array | None) -> Answer:
    """One environment, one model, one optimisation."""
    import gurobipy  # noqa: PLC0415  # see above

    parameters: dict[str, float] = {"OutputFlag": 0, "Threads": 1, "Seed": SEED}
    parameters |= {"TimeLimit": limits.seconds, "MIPGap": limits.relative_gap, "OptimalityTol": DUAL_TOLERANCE}
    if not limits.presolve:
        parameters["Presolve"] = 0
    if limits.nodes is not None:
        parameters["NodeLimit"] = limits.nodes
    with gurobipy.Env(params=parameters) as environment, gurobipy.Model(env=environment) as model:
        kinds = np.where(program.integer, "I", "C")
        columns: Any = model.addMVar(
            len(program.cost), lb=program.low, ub=program.high, obj=program.cost, vtype=kinds.tolist()
        )
        if start is not None and program.integer.any():
            columns.Start = start
        matrix = program.matrix.tocsr()
        equal = program.row_low == program.row_high
        for rows, sense, side in (
            (equal, "=", program.row_low),
            (~equal & np.isfinite(program.row_low), ">", program.row_low),
            (~equal & np.isfinite(program.row_high), "<", program.row_high),
        ):
            if rows.any():
                model.addMConstr(matrix[np.flatnonzero(rows)], columns, sense, side[rows])
        model.optimize()
        if model.Status == gurobipy.GRB.INF_OR_UNBD:
            model.setParam("DualReductions", 0)
            model.optimize()
        return _read(model, columns, integral=bool(program.integer.any()))


def _read(model: Any, columns: Any, *, integral: bool) -> Answer:
    """The answer of a Gurobi that has stopped."""
    import gurobipy  # noqa: PLC0415  # see above

    words: dict[int, Status] = {
        gurobipy.GRB.OPTIMAL: "optimal",
        gurobipy.GRB.INFEASIBLE: "infeasible",
        gurobipy.GRB.UNBOUNDED: "unbounded",
        gurobipy.GRB.TIME_LIMIT: "time_limit",
        gurobipy.GRB.SUBOPTIMAL: "feasible",
        gurobipy.GRB.NODE_LIMIT: "feasible",
        gurobipy.GRB.INTERRUPTED: "time_limit",
    }
    status: Status = words.get(model.Status, "unknown")
    optimal_bound = model.ObjVal if status == "optimal" else -np.inf
    bound = float(model.ObjBound) if integral and status not in ("infeasible", "unbounded") else optimal_bound
    if model.SolCount < 1 or status in ("infeasible", "unbounded"):
        return Answer(status, None, np.inf, bound)
    values: Array = np.array(columns.X, dtype=np.float64)
    return Answer(status, values, float(model.ObjVal), bound)
