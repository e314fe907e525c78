"""The sample-average tau-MILP: one plan for several batches, each of which may take a time of its own.

The idea: a plan made for the average batch is too confident, since a step takes what its own batch takes and that is
convex in the batch (Jensen). Here every planning batch s keeps its buckets, its flows e_s and its tau_s = 1 / T_s;
all share the numbers of replicas p:

    min sum_s T_s / S  s.t.  T_s >= tangents of 1 / tau_s  and, for each s, the rows of the tau-MILP (see tau.py)

1 / tau is convex, so tangents stay below it and the optimum stays a certified bound: without bubbles no plan, no
dispatch and no simulator is faster on these batches in these buckets, on average. Around the times of the plan known
so far the tangents lie 2 % apart, which costs 1e-4 of the bound at most. Cost: S (J + K) rows and S K J columns with J
buckets a batch, no more than the average over all their buckets has; 0.05-1 s.

Shapes: K kinds, J classes, S batches, P pairs (s, i, j) that fit; columns are P flows, K counts, S taus, S times.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from lobra.batch import Array
from policies.deployment.classes import Table
from policies.deployment.tau import (
    ROUNDED,
    Fluid,
    Outcome,
    counts_of,
    fluid_seconds,
    ideal_seconds,
    integer_rows,
    most_of,
    tolerated,
)
from policies.solvers import Program, solve

NEAR = np.geomspace(0.8, 1.4, 20)  # tangents around the expected times: neighbours 3 % apart
FAR = np.geomspace(0.05, 1.0, 12)  # of 1 / an ideal step, and everywhere: no time is undercharged by much


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where each column stands, and which pairs have one."""

    batch: Array  # int64 [P]
    kind: Array  # int64 [P]
    cell: Array  # int64 [P], class
    kinds: int
    batches: int

    @property
    def counts(self) -> int:
        """The first count."""
        return len(self.batch)

    @property
    def tau(self) -> int:
        """The first tau."""
        return self.counts + self.kinds

    @property
    def time(self) -> int:
        """The first time."""
        return self.tau + self.batches

    @property
    def number(self) -> int:
        """All columns."""
        return self.time + self.batches


@dataclass(frozen=True, slots=True, eq=False)
class _Scaled:
    """The batches in units of their ideal steps, so that numbers are around 1."""

    amounts: Array  # float64 [S, J]
    each: Array  # float64 [P], of a sequence
    working: Array  # float64 [S, K], share of the time that a replica is not waiting for a bubble to pass
    expected: Array  # float64 [S]
    weights: Array  # float64 [S], of each batch's time in the mean; sum 1


def deploy_sampled(
    fluid: Fluid,
    by_batch: Array,
    expected: Array,
    upper: Array | None = None,
    *,
    whole: bool = True,
    prices: Array | None = None,
) -> Outcome | None:
    """The counts whose fluid steps of these batches [S, J] are shortest on average; None where no point was found.

    expected: seconds of each batch around which the tangents lie closely, [S]. upper: T_ub of each batch [S], against
    which the bubbles of full micro-batches are charged; None leaves bubbles out. The bound then holds for plans that no
    batch takes longer with. `whole=False` relaxes counts to fractions: a bound in milliseconds, its counts floored.
    prices: of a sequence in each batch, where they differ, [S, K, J]; none below those of the table.
    """
    known = fluid.prices
    each = np.broadcast_to(known.each, (len(by_batch), *known.each.shape)) if prices is None else prices
    usable = (by_batch[:, None, :] > 0) & np.isfinite(each)
    working = np.ones((len(by_batch), len(known.kinds)))
    if upper is not None:
        usable &= known.alone <= upper[:, None, None]
        working -= np.clip(known.bubbles / upper[:, None], 0.0, 1.0)
    if not np.all(usable.any(axis=1) | (by_batch <= 0)):
        return None
    scales = np.array([ideal_seconds(known, amounts, fluid.cluster.gpus) for amounts in by_batch])
    batch, kind, cell = np.nonzero(usable)
    columns = _Columns(batch, kind, cell, kinds=len(known.kinds), batches=len(by_batch))
    scaled = _Scaled(
        by_batch / scales[:, None], each[batch, kind, cell], working, expected / scales, scales / scales.sum()
    )
    solution = solve(_program(fluid, columns, scaled, whole=whole), **fluid.search.limits)
    if solution.values is None:
        return None
    unit = float(scales.mean())
    margin = tolerated(fluid, len(np.unique(batch * by_batch.shape[1] + cell)) + 4 * len(by_batch))
    bound = max(solution.bound - margin, 1.0) * unit * ROUNDED  # no step is faster than an ideal one
    counts = counts_of(fluid, solution.values[columns.counts : columns.tau])
    return Outcome(counts, bound, solution.status, solution.solver, solution.notice)


def sampled_seconds(prices: Table, counts: Sequence[int], by_batch: Array, *, bubbles: bool = True) -> Array:
    """Fluid seconds of a plan in each batch; float64 [S], infinity where a class fits none of its replicas."""
    return np.array([fluid_seconds(prices, counts, amounts, bubbles=bubbles) for amounts in by_batch])


def _program(fluid: Fluid, columns: _Columns, scaled: _Scaled, *, whole: bool) -> Program:
    """Rows: classes (flows = tau), kinds (load <= p), tangents, then those of counts."""
    prices, number, amounts = fluid.prices, columns.number, scaled.amounts
    kinds, batches = columns.kinds, columns.batches
    pairs = np.arange(columns.counts)
    rows, row_of = np.unique(columns.batch * amounts.shape[1] + columns.cell, return_inverse=True)
    owner = rows // amounts.shape[1]
    flows = _sparse(
        np.concatenate([np.ones(len(pairs)), -np.ones(len(rows))]),
        np.concatenate([row_of, np.arange(len(rows))]),
        np.concatenate([pairs, columns.tau + owner]),
        (len(rows), number),
    )
    share = scaled.working * prices.units
    load = _sparse(
        np.concatenate([scaled.each * amounts[columns.batch, columns.cell], -share.ravel()]),
        np.concatenate([columns.batch * kinds + columns.kind, np.arange(batches * kinds)]),
        np.concatenate([pairs, np.tile(columns.counts + np.arange(kinds), batches)]),
        (batches * kinds, number),
    )
    tangents = _tangents(columns, scaled.expected)
    replicas, low, high = integer_rows(fluid)
    before, after = (scipy.sparse.csc_matrix((len(low), width)) for width in (columns.counts, 2 * batches))
    none, zero = np.full(load.shape[0], -np.inf), np.zeros(load.shape[0])
    cost = np.zeros(number)
    cost[columns.time :] = scaled.weights
    return Program(
        cost=cost,
        matrix=scipy.sparse.vstack([flows, load, tangents, scipy.sparse.hstack([before, replicas, after])]).tocsc(),
        row_low=np.concatenate([np.zeros(len(rows)), none, np.full(tangents.shape[0], 2.0), low]),
        row_high=np.concatenate([np.zeros(len(rows)), zero, np.full(tangents.shape[0], np.inf), high]),
        low=np.concatenate([np.zeros(columns.time), np.ones(batches)]),
        high=np.concatenate(
            [np.full(len(pairs), np.inf), most_of(fluid), np.full(batches, 1.0 + 1e-6), np.full(batches, np.inf)]
        ),
        integer=whole & (np.arange(number) >= columns.counts) & (np.arange(number) < columns.tau),
    )


def _tangents(columns: _Columns, expected: Array) -> scipy.sparse.csc_matrix:
    """Left sides of a T + tau / a >= 2 for some a, batch by batch; expected [S] are scaled times.

    The tangent at a, times a: entries stay around 1.
    """
    points = np.concatenate([NEAR / expected[:, None], np.tile(FAR, (len(expected), 1))], axis=1)
    a = np.clip(points, 0.0, 1.0).ravel()
    owner, row = np.repeat(np.arange(columns.batches), points.shape[1]), np.arange(len(a))
    return _sparse(
        np.concatenate([a, 1 / a]),
        np.concatenate([row, row]),
        np.concatenate([columns.time + owner, columns.tau + owner]),
        (len(a), columns.number),
    )


def _sparse(values: Array, rows: Array, columns: Array, shape: tuple[int, int]) -> scipy.sparse.csc_matrix:
    return scipy.sparse.csc_matrix((values, (rows, columns)), shape=shape)
