"""What no dispatch can beat: sequences as a fluid, spread over kinds of machines by a linear program.

Every sequence is charged the least that any micro-batch can charge it, bubbles are left out; so the optimum is below
every integer dispatch, judged by the exact evaluator or by a simulator. Cost: one linear program of K J columns
and K + J rows, 0.3-2 ms.

The bound is not what the solver calls optimal: its tolerances of 1e-7 a row and a column lift that up to 2e-6 above the
truth. It is computed again from prices y_k of the machines' time. A dispatch that ends at T gives kind k at most p_k T,
and each sequence of bucket j takes at least the cheapest of y_k W_kj, so for every y >= 0

    T >= sum_j B_j min over k of y_k W_kj / sum_k p_k y_k.

The solver's duals are good y, and a poor y costs strength, never validity; what is left is the rounding of one sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from lobra.batch import Array
from lobra.errors import Infeasible
from lobra.rates import Loads
from policies.solvers import Program, solve

ROUNDING = 1e-15  # relative, for each kind and bucket: above what sums and products of so many terms are rounded by


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """The fluid's optimum: how long it takes, how it flows, and what no flow at these prices undercuts."""

    seconds: float  # as the solver says
    flow: Array  # float64 [K, J]
    bound: float  # by our own arithmetic, from the solver's duals; 0 with bubbles, where none is asked for


def least_each(loads: Loads) -> Array:
    """Seconds that one sequence of a bucket costs at the least, in the best micro-batch; inf where it does not fit.

    max(floor, fixed + each b) / b falls in b where fixed >= 0; where a fit made fixed negative it may rise again, so
    the ends and the neighbours of the crossing are tried. float64 [J].
    """
    capacity = np.maximum(loads.capacity, 1)
    slope = np.where(loads.each > 0, loads.each, np.inf)
    crossing = np.clip(np.floor((loads.floor - loads.fixed) / slope), 1, capacity)
    sizes = np.stack([np.ones_like(capacity), capacity, crossing, np.minimum(crossing + 1, capacity)])
    best = np.min(np.maximum(loads.floor, loads.fixed + loads.each * sizes) / sizes, axis=0)
    return np.where(loads.capacity > 0, np.maximum(best, 0.0), np.inf)


def fluid(
    loads: Sequence[Loads], replicas: Sequence[int], counts: Array, bubbles: Array | None = None
) -> tuple[float, Array]:
    """Least makespan of the fluid and how it flows, float64 [K, J], for `replicas[k]` machines of each kind.

    `bubbles`, seconds [K], are added to the load of every machine of a kind; without them the makespan is a bound.
    Infeasible where a sequence fits no machine.
    """
    found = priced_fluid(np.stack([least_each(kind) for kind in loads]), replicas, counts, bubbles)
    return found.seconds, found.flow


def priced_fluid(each: Array, replicas: Sequence[int], counts: Array, bubbles: Array | None = None) -> Flow:
    """The same for given prices of a sequence, float64 [K, J]; inf where it does not fit."""
    machines = np.asarray(replicas, dtype=np.float64)
    load = each * np.maximum(counts, 1)  # of a whole bucket; inf where it does not fit
    usable = np.isfinite(load) & (counts > 0) & (machines[:, None] > 0)
    held: Array = np.any(usable, axis=0)
    if not held[counts > 0].all():
        raise Infeasible("dispatch: some sequences fit no replica; truncate them or plan a replica that holds them")
    kinds, columns = np.nonzero(usable)
    if not len(kinds):
        return Flow(0.0, np.zeros(load.shape), 0.0)
    scale = float(np.min(np.where(usable, load, np.inf), axis=0)[counts > 0].sum() / machines.sum())
    present = np.flatnonzero(counts > 0)
    idle = np.zeros(len(machines)) if bubbles is None else -machines * bubbles / scale
    if len(kinds) == len(present):  # no bucket has a choice
        values, duals = _only(load[kinds, columns] / scale, kinds, machines, idle)
    else:
        values, duals = _solve(load[kinds, columns] / scale, kinds, np.searchsorted(present, columns), machines, idle)
    flow = np.zeros(load.shape)
    flow[kinds, columns] = np.maximum(values[:-1], 0.0) * counts[columns]
    bound = 0.0 if bubbles is not None else _certain(np.where(usable, load, np.inf)[:, present], machines, duals)
    return Flow(float(values[-1]) * scale, flow, bound)


def _certain(load: Array, machines: Array, prices: Array) -> float:
    """The bound by prices y [K] of machines' time, load float64 [K, J] of whole buckets; valid for all y >= 0."""
    best, fits = 0.0, np.isfinite(load)
    held = np.where(fits, load, 0.0)
    for y in (np.maximum(prices, 0.0), np.ones(len(machines))):
        paid = float(machines @ y)
        if paid > 0:
            cheapest = np.min(np.where(fits, held * y[:, None], np.inf), axis=0)
            best = max(best, float(cheapest.sum()) / paid)
    return best * (1 - ROUNDING * sum(load.shape))


def _only(load: Array, kinds: Array, machines: Array, idle: Array) -> tuple[Array, Array]:
    """The same as `_solve` where every bucket fits one kind alone: nothing is left to be decided."""
    most = np.maximum(machines, 1)
    seconds = np.where(machines > 0, (np.bincount(kinds, weights=load, minlength=len(machines)) - idle) / most, -np.inf)
    prices = np.zeros(len(machines))
    prices[seconds.argmax()] = 1.0
    return np.append(np.ones(len(load)), seconds.max()), prices


def _solve(load: Array, kinds: Array, columns: Array, machines: Array, idle: Array) -> tuple[Array, Array]:
    """Shares of buckets, one a usable pair, and the makespan last, then prices of machines' time, float64 [K].

    Machine k may be loaded by `idle` less than the makespan.
    """
    pairs, rows, last = len(kinds), len(machines), int(columns.max()) + 1
    matrix = scipy.sparse.csc_matrix(  # two entries a pair: the machine's time, and the bucket's share
        (
            np.concatenate([np.stack([load, np.ones(pairs)], axis=1).reshape(-1), -machines]),
            np.concatenate([np.stack([kinds, rows + columns], axis=1).reshape(-1), np.arange(rows)]),
            np.append(np.arange(pairs + 1) * 2, 2 * pairs + rows),
        ),
        shape=(rows + last, pairs + 1),
    )
    program = Program(
        cost=np.append(np.zeros(pairs), 1.0),
        matrix=matrix,
        row_low=np.append(np.full(rows, -np.inf), np.ones(last)),
        row_high=np.append(idle, np.ones(last)),
        low=np.zeros(pairs + 1),
        high=np.full(pairs + 1, np.inf),
        integer=np.zeros(pairs + 1, dtype=bool),
    )
    solution = solve(program)
    if solution.values is None:
        raise RuntimeError(f"the fluid program ended as {solution.status}; it always has an optimum")
    duals = np.zeros(rows) if solution.duals is None else -solution.duals
    return solution.values, duals[:rows]


def fluid_bound(loads: Sequence[Loads], replicas: Sequence[int], counts: Array) -> float:
    """Seconds that no dispatch of these counts [J] over `replicas[k]` machines of each kind can beat; no bubbles."""
    return priced_fluid(np.stack([least_each(kind) for kind in loads]), replicas, counts).bound
