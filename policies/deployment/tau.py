"""The tau-MILP: the deployment problem as one linear program with few integers.

The paper's joint problem (Eq. 2) multiplies the step time T by the numbers of replicas p. With e = d / T and
tau = 1 / T that product disappears:

    max tau  s.t.  sum_i e_ij = B_j tau;  sum_j W_ij e_ij <= p_i (1 - bub_i / T_ub);  sum_i n_i p_i <= N;  p integer

where W_ij is the least that a sequence of class j costs in a micro-batch of kind i, and e_ij = 0 where it does not fit,
or takes longer than T_ub by itself. Without bubbles its optimum is a certified bound: no plan and no dispatch of these
classes is faster. With the bubbles of full micro-batches charged against T_ub, the fluid time of a plan already known,
it searches among the faster ones. All is scaled: classes to fractions, time to a step that wastes nothing, so that
numbers are around 1 whatever the model and the cluster.

Shapes: K kinds, J classes, P pairs of them that fit; columns are P flows, K counts, tau.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
import scipy.sparse

from lobra.batch import Array
from lobra.errors import Infeasible
from lobra.rates import Loads
from lobra.spec import ClusterSpec
from policies.bounds.fluid import fluid as fluid_dispatch
from policies.deployment.classes import Table
from policies.deployment.placement import most
from policies.deployment.sharing import needed
from policies.solvers import Program, Solution, SolverName, solve
from policies.solvers.highs import DUAL_TOLERANCE

SEARCH_TOLERANCE = 1e-6  # of both solvers, for rows and for objectives that count as equal
ROUNDED = 1 - 1e-12  # times a bound: our own arithmetic


@dataclass(frozen=True, slots=True)
class Search:
    """Whom to ask, and when to stop."""

    solver: SolverName = "highs"
    node_limit: int = 500  # of one program's search tree: the same on every machine
    time_limit_seconds: float = 60.0  # of one program; a guard, not a setting: results that hit it may differ
    relative_gap: float = 1e-3

    @property
    def limits(self) -> "Limits":
        """As the solver seam takes them."""
        return {
            "solver": self.solver,
            "node_limit": self.node_limit,
            "time_limit_seconds": self.time_limit_seconds,
            "relative_gap": self.relative_gap,
            "presolve": False,  # measured: with it these programs take twice as long
        }


class Limits(TypedDict):
    """Arguments of a solve."""

    solver: SolverName
    node_limit: int
    time_limit_seconds: float
    relative_gap: float
    presolve: bool


@dataclass(frozen=True, slots=True)
class Fluid:
    """The deployment problem with sequences as a fluid."""

    prices: Table
    cluster: ClusterSpec
    longest: int  # tokens that at least one replica, or group of replicas that may share, must hold
    search: Search
    groups: int = 1  # replicas that may share a micro-batch, at most
    loose: bool = False  # of any number and with pipelines, too: for bounds (see sharing.py)

    @property
    def holders(self) -> Array:
        """How many replicas of each kind hold the longest sequence together; float64 [K], infinity where none do."""
        return np.array([needed(kind, self.longest, self.groups, loose=self.loose) for kind in self.prices.kinds])


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many replicas of each kind, and what is known about that."""

    counts: tuple[int, ...]  # [K]
    bound_seconds: float  # of the program: no fluid plan is faster (than T_ub, where one was given)
    status: str
    solver: str
    notice: str | None = None  # a fallback, a limit that had to be enforced


def deploy(fluid: Fluid, amounts: Array, upper_seconds: float = np.inf) -> Outcome | None:
    """The fluid optimum for amounts [J] of each class a step; None where the program has no point (or found none).

    `upper_seconds`: T_ub; infinity leaves bubbles out.
    """
    prices = fluid.prices
    usable = (amounts > 0) & np.isfinite(prices.each) & (prices.alone <= upper_seconds)
    if not np.all(usable.any(axis=0) | (amounts <= 0)):
        return None
    scale = ideal_seconds(prices, amounts, fluid.cluster.gpus)
    working = 1.0 - np.clip(prices.bubbles / upper_seconds, 0.0, 1.0)
    solution = solve(_program(fluid, amounts / scale, usable, working), **fluid.search.limits)
    return _outcome(fluid, solution, scale, int(np.count_nonzero(usable.any(axis=0))))


def ideal_seconds(prices: Table, amounts: Array, gpus: int) -> float:
    """Seconds if every class could be computed where it is cheapest and no GPU ever waited; below every plan."""
    present = amounts > 0
    cheapest = np.min(prices.gpus[:, None] * prices.each[:, present], axis=0)
    return float(cheapest @ amounts[present] / gpus)


def fluid_seconds(prices: Table, counts: Sequence[int], amounts: Array, *, bubbles: bool = True) -> float:
    """Seconds of a plan with these counts [K], bubbles of full micro-batches included; infinity if a class fits none.

    With bubbles it is an upper end of the fluid's own time: they are charged to kinds that idle, too.
    """
    chosen = [k for k, count in enumerate(counts) if count]
    present = np.flatnonzero(amounts > 0)
    size = np.ones(prices.each.shape) if prices.size is None else prices.size
    loads = [_of_classes(prices.loads[k], present, size[k] <= counts[k]) for k in chosen]
    try:
        seconds, _ = fluid_dispatch(
            loads, [counts[k] for k in chosen], amounts[present], prices.bubbles[chosen] if bubbles else None
        )
    except Infeasible:
        return float("inf")
    return seconds


def _of_classes(loads: Loads, present: Array, grouped: Array) -> Loads:
    """Of the classes that are there, on as many replicas as they need, bool [J]."""
    capacity, fixed, each = np.where(grouped, loads.capacity, 0)[present], loads.fixed[present], loads.each[present]
    return replace(loads, capacity=capacity, fixed=fixed, each=each, least=None)


def _program(fluid: Fluid, amounts: Array, usable: Array, working: Array) -> Program:
    """Rows: one a class (flows = tau), one a kind (load <= p), then those of whole replicas."""
    prices = fluid.prices
    kinds, classes = np.nonzero(usable)
    present = np.flatnonzero(usable.any(axis=0))
    pairs, number, rows = len(kinds), len(prices.kinds), len(present)
    tau = pairs + number
    flows = scipy.sparse.csc_matrix(
        (np.ones(pairs), (np.searchsorted(present, classes), np.arange(pairs))), shape=(rows, tau + 1)
    ) - scipy.sparse.csc_matrix((np.ones(rows), (np.arange(rows), np.full(rows, tau))), shape=(rows, tau + 1))
    load = scipy.sparse.csc_matrix(
        (
            np.concatenate([prices.each[kinds, classes] * amounts[classes], -working * prices.units]),
            (np.concatenate([kinds, np.arange(number)]), np.arange(tau)),
        ),
        shape=(number, tau + 1),
    )
    whole, low, high = integer_rows(fluid)
    padding = scipy.sparse.csc_matrix((len(low), pairs))
    last = scipy.sparse.csc_matrix((len(low), 1))
    return Program(
        cost=np.append(np.zeros(tau), -1.0),
        matrix=scipy.sparse.vstack([flows, load, scipy.sparse.hstack([padding, whole, last])]).tocsc(),
        row_low=np.concatenate([np.zeros(rows), np.full(number, -np.inf), low]),
        row_high=np.concatenate([np.zeros(rows + number), high]),
        low=np.zeros(tau + 1),
        high=np.concatenate([np.full(pairs, np.inf), most_of(fluid), [1.0 + 1e-6]]),
        integer=np.concatenate([np.zeros(pairs, bool), np.ones(number, bool), [False]]),
    )


def integer_rows(fluid: Fluid) -> tuple[scipy.sparse.csc_matrix, Array, Array]:
    """What binds numbers of units: GPUs and room for tp groups, the longest sequence; matrix [m, K], low, high.

    Where several replicas hold that one together, parts of different groups add up: necessary, not enough.
    """
    room, capacity = _rooms(fluid.prices, fluid.cluster)
    holds = np.minimum(1.0, fluid.prices.units / fluid.holders)[None, :]
    matrix = scipy.sparse.csc_matrix(np.vstack([room, holds]))
    return matrix, np.append(np.full(len(room), -np.inf), 1.0), np.append(capacity, np.inf)


def most_of(fluid: Fluid) -> Array:
    """How many units of each kind there is room for; float64 [K]."""
    kinds = fluid.prices.kinds
    return np.array([most(kind.config, fluid.cluster) // kind.config.fsdp for kind in kinds], dtype=np.float64)


def counts_of(fluid: Fluid, values: Array) -> tuple[int, ...]:
    """Numbers of replicas from a program's columns [K], which count units; fractions are floored."""
    return tuple((np.floor(values + 1e-6).astype(np.int64) * fluid.prices.units).tolist())


def _rooms(prices: Table, cluster: ClusterSpec) -> tuple[Array, Array]:
    """GPUs in all, and for each tp what its groups and those of its multiples can use: they lie inside nodes.

    Coefficients [rows, K] and limits [rows]. Exact where every tp divides the next larger one, necessary always.
    """
    widths = np.array([kind.config.tp for kind in prices.kinds])
    largest = max(cluster.sizes)
    gpus = (prices.gpus * prices.units).astype(np.float64)
    rows, limits = [gpus], [float(cluster.gpus)]
    for width in np.unique(widths[widths <= largest]).tolist():
        room = sum(size // width * width for size in cluster.sizes)
        if room < cluster.gpus:
            inside = (widths % width == 0) & (widths <= largest)
            rows.append(np.where(inside, gpus, 0.0))
            limits.append(float(room))
    return np.stack(rows), np.array(limits)


def tolerated(fluid: Fluid, columns: float) -> float:
    """By how much a solver's tolerance may lift a program's bound: objectives are about 1.

    What is optimal within the tolerance has reduced costs of -1e-7 at the least, so the true optimum is lower by 1e-7
    times the sum of all columns at the most: numbers of units, and `columns` others of 1 at the most (flows into a
    class sum to tau). A search leaves out what improves its point by less than 1e-6, and that point may violate rows by
    as much (one of 200 small instances had a bound 5.6e-7 too high).
    """
    gpus = fluid.prices.gpus * fluid.prices.units
    return 2 * SEARCH_TOLERANCE + DUAL_TOLERANCE * (fluid.cluster.gpus / float(gpus.min()) + columns)


def _outcome(fluid: Fluid, solution: Solution, scale: float, rows: int) -> Outcome | None:
    """The plan, and the bound that the solver's tolerance leaves."""
    if solution.values is None:
        return None
    best_tau = 1.0  # at most
    if np.isfinite(solution.bound):
        best_tau = min(best_tau, tolerated(fluid, rows + 1) - solution.bound)
    bound = scale / max(best_tau, 1e-12)
    counts = counts_of(fluid, solution.values[-1 - len(fluid.prices.kinds) : -1])
    return Outcome(counts, bound * ROUNDED, solution.status, solution.solver, solution.notice)
