"""What no dispatch can beat: sequences as a fluid, spread over kinds of machines by a linear program.

Every sequence is charged the least that any micro-batch can charge it, bubbles are left out; so the optimum is below
every integer dispatch, judged by the exact evaluator or by a simulator. Cost: one linear program of K J columns
and K + J rows, 0.3-2 ms.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from lobra.batch import Array
from lobra.errors import Infeasible
from lobra.rates import Loads
from policies.solvers import Program, solve


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
    return priced_fluid(np.stack([least_each(kind) for kind in loads]), replicas, counts, bubbles)


def priced_fluid(
    each: Array, replicas: Sequence[int], counts: Array, bubbles: Array | None = None
) -> tuple[float, Array]:
    """The same for given prices of a sequence, float64 [K, J]; inf where it does not fit."""
    machines = np.asarray(replicas, dtype=np.float64)
    load = each * np.maximum(counts, 1)  # of a whole bucket; inf where it does not fit
    usable = np.isfinite(load) & (counts > 0) & (machines[:, None] > 0)
    held: Array = np.any(usable, axis=0)
    if not held[counts > 0].all():
        raise Infeasible("dispatch: some sequences fit no replica; truncate them or plan a replica that holds them")
    kinds, columns = np.nonzero(usable)
    if not len(kinds):
        return 0.0, np.zeros(load.shape)
    scale = float(np.min(np.where(usable, load, np.inf), axis=0)[counts > 0].sum() / machines.sum())
    present = np.flatnonzero(counts > 0)
    idle = np.zeros(len(machines)) if bubbles is None else -machines * bubbles / scale
    values = _solve(load[kinds, columns] / scale, kinds, np.searchsorted(present, columns), machines, idle)
    flow = np.zeros(load.shape)
    flow[kinds, columns] = np.maximum(values[:-1], 0.0) * counts[columns]
    return float(values[-1]) * scale, flow


def _solve(load: Array, kinds: Array, columns: Array, machines: Array, idle: Array) -> Array:
    """Shares of buckets, one a usable pair, and the makespan last; machine k may be loaded by `idle` less than that."""
    pairs, rows, last = len(kinds), len(machines), int(columns.max()) + 1
    matrix = scipy.sparse.csc_matrix(
        (
            np.concatenate([load, np.ones(pairs), -machines]),
            (
                np.concatenate([kinds, rows + columns, np.arange(rows)]),
                np.concatenate([np.arange(pairs), np.arange(pairs), np.full(rows, pairs)]),
            ),
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
    return solution.values


def fluid_bound(loads: Sequence[Loads], replicas: Sequence[int], counts: Array) -> float:
    """Seconds that no dispatch of these counts [J] over `replicas[k]` machines of each kind can beat; no bubbles."""
    return fluid(loads, replicas, counts)[0] * (1 - 1e-9)  # the solver's tolerance must not lift it above the truth
