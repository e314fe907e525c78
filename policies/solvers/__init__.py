"""The solver seam: linear and mixed-integer programs, solved by HiGHS or Gurobi, checked by us."""

from policies.solvers.model import Program, Solution
from policies.solvers.solve import SolverName, solve

__all__ = ["Program", "Solution", "SolverName", "solve"]
