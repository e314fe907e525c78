"""Programs for tests of the solver seam."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from policies.solvers import Program, solve

INF = np.inf


def program(cost, rows, row_low, row_high, low=0.0, high=INF, integer=False):
    """A program from plain lists; bounds and integrality of all columns alike unless given one by one."""
    columns = len(cost)
    return Program(
        cost=cost,
        matrix=scipy.sparse.csr_array(np.array(rows, float).reshape(-1, columns)),
        row_low=row_low,
        row_high=row_high,
        low=np.broadcast_to(np.asarray(low, float), columns).copy(),
        high=np.broadcast_to(np.asarray(high, float), columns).copy(),
        integer=np.broadcast_to(integer, columns).copy(),
    )


def bin_packing(sizes, room, bins):
    """Fewest bins; columns x[item, bin] row by row, then y[bin]."""
    items = len(sizes)
    one_bin = scipy.sparse.kron(scipy.sparse.eye(items), np.ones((1, bins)))
    fill = scipy.sparse.kron(np.asarray(sizes, float)[None], scipy.sparse.eye(bins))
    matrix = scipy.sparse.block_array([[one_bin, None], [fill, -room * scipy.sparse.eye(bins)]], format="csr")
    columns = items * bins + bins
    return Program(
        cost=np.append(np.zeros(items * bins), np.ones(bins)),
        matrix=matrix,
        row_low=np.append(np.ones(items), np.full(bins, -INF)),
        row_high=np.append(np.ones(items), np.zeros(bins)),
        low=np.zeros(columns),
        high=np.ones(columns),
        integer=np.ones(columns, bool),
    )


def first_fit(sizes, room, bins):
    """First-fit decreasing, as a point of the bin-packing program."""
    point, free = np.zeros((len(sizes) + 1, bins)), [room] * bins
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        place = next(place for place in range(bins) if free[place] >= sizes[item])
        free[place] -= sizes[item]
        point[item, place] = point[-1, place] = 1
    return point.ravel()


def brute_force(whole):
    """The least objective of a small all-integer program with finite bounds; inf where nothing is feasible."""
    ranges = [range(int(low), int(high) + 1) for low, high in zip(whole.low, whole.high, strict=True)]
    points = np.array(list(itertools.product(*ranges)), float)
    activity = points @ whole.matrix.toarray().T
    feasible = np.all((activity >= whole.row_low - 1e-9) & (activity <= whole.row_high + 1e-9), axis=1)
    return float((points @ whole.cost)[feasible].min(initial=INF))


def gurobi_or_skip():
    """Skip where Gurobi is absent or its licence unusable."""
    tiny = program([1.0], [[1.0]], [2.0], [INF])
    if not solve(tiny, solver="gurobi").solver.startswith("Gurobi"):
        pytest.skip("no usable Gurobi")
