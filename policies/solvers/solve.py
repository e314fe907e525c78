"""Ask a solver, fall back where it cannot answer, and check what it says."""

import time
from typing import Literal

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from policies.solvers import gurobi, highs
from policies.solvers.check import WrongClaim, best_incumbent, checked, rounded, slack
from policies.solvers.highs import Answer
from policies.solvers.model import Limits, Program, Solution

SolverName = Literal["highs", "gurobi", "auto"]


def solve(
    program: Program,
    *,
    solver: SolverName = "highs",
    time_limit_seconds: float = 60.0,
    node_limit: int | None = None,
    relative_gap: float = 1e-4,
    presolve: bool = True,
    start: Array | None = None,
) -> Solution:
    """The best point found within the limit, re-checked; a wrong claim raises check.WrongClaim.

    `gurobi` and `auto` ask Gurobi first. Where its licence, its absence or the program's size forbids, HiGHS answers
    instead and the Solution's notice says so. `start` is a feasible point, a heuristic's for example: the search may
    begin there, and the Solution is never worse. `node_limit` ends a search after so much work, the same on every
    machine, with status `feasible`; seconds are a guard.
    """
    if solver not in ("highs", "gurobi", "auto"):
        raise BadInput(f"solver is {solver!r}; choose highs, gurobi or auto")
    if node_limit is not None and node_limit < 1:
        raise BadInput(f"solver limits: node_limit is {node_limit!r}; it must be at least 1, or none")
    if not time_limit_seconds > 0 or not relative_gap >= 0:
        raise BadInput(
            f"solver limits: time_limit_seconds {time_limit_seconds!r} must be above 0, "
            f"relative_gap {relative_gap!r} not below 0"
        )
    if start is not None and (start.shape != program.cost.shape or best_incumbent(program, [start]) is None):
        raise BadInput("solver: start is not feasible; give a point inside rows and bounds, whole where it must be")
    begin = time.monotonic()
    answer, name, notice = _ask(program, solver, Limits(time_limit_seconds, relative_gap, node_limit, presolve), start)
    values, objective = _best_point(program, answer, start)
    bound = answer.bound if np.isfinite(answer.bound) else -float("inf")
    notice = "; ".join(text for text in (notice, answer.notice) if text) or None
    seconds = time.monotonic() - begin
    return Solution(answer.status, values, objective, bound, name, seconds, notice, answer.duals)


def _best_point(program: Program, answer: Answer, start: Array | None) -> tuple[Array | None, float]:
    """The better of the solver's point and the start, checked; None and inf where there is neither."""
    values, objective = None, float("inf")
    if answer.values is not None:
        values, objective = checked(program, answer.values, answer.objective, answer.bound)
    if start is not None:
        if answer.status == "infeasible" or program.objective(start) < answer.bound - slack(program, start):
            raise WrongClaim(f"a solver answered {answer.status} with bound {answer.bound!r}, but the start refutes it")
        if program.objective(start) < objective:
            values = rounded(program, start)
            objective = program.objective(values)
    if values is not None:
        values.setflags(write=False)
    return values, objective


def _ask(program: Program, solver: SolverName, limits: Limits, start: Array | None) -> tuple[Answer, str, str | None]:
    """An unchecked answer, who gave it, and what a reader must know about that."""
    notice = None
    if solver != "highs":
        try:
            return *gurobi.answer(program, limits, start), None
        except gurobi.Unusable as reason:
            notice = f"{reason}; HiGHS answered instead"
    return highs.answer(program, limits, start), highs.name(), notice
