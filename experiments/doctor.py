"""`lobra doctor`: what is installed, what works, and what the machine has."""

import platform
import sys

import numpy as np
from scipy.sparse import csr_array

from experiments.machine import machine_rows, torch_rows
from experiments.rundir import PACKAGES, git_commit, version
from experiments.tables import print_table
from policies.solvers import Program, SolverName, solve

OPTIONAL = ("safetensors", "tokenizers", "hydra-joblib-launcher", "hydra-submitit-launcher", "hydra-optuna-sweeper")
BREAKS_HYDRA = (
    "hydra-ax-sweeper",
    "hydra-nevergrad-sweeper",
)  # with these installed every Hydra program fails at start


def doctor() -> int:
    """Print versions, solvers and plug-ins; 0, whatever was found."""
    rows = [("python", platform.python_version()), ("commit", git_commit() or "no checkout"), ("numpy", np.__version__)]
    rows += [(package, version(package) or "absent") for package in PACKAGES if package not in ("numpy", "torch")]
    rows += [(package, version(package) or "absent (optional)") for package in ("torch", *OPTIONAL)]
    rows += [
        (package, f"{found}: remove it, it breaks Hydra 1.3") for package in BREAKS_HYDRA if (found := version(package))
    ]
    rows += [(f"solver {name}", _solver(name)) for name in ("highs", "gurobi")]
    rows += machine_rows() + (torch_rows() if version("torch") else [])
    print_table(("what", "found"), rows, sys.stdout)
    return 0


def _solver(name: SolverName) -> str:
    """Whether it finds the least whole number that is at least 1.5."""
    one = np.ones(1)
    program = Program(one, csr_array(np.ones((1, 1))), 1.5 * one, np.inf * one, 0 * one, 9 * one, np.ones(1, np.bool_))
    solution = solve(program, solver=name, time_limit_seconds=10.0)
    return f"{solution.status} {solution.objective:g} by {solution.solver}" + (
        f"; {solution.notice}" if solution.notice else ""
    )
