"""Neighbours of a plan: the fewest replicas of one kind give their GPUs to another kind.

Which exchange helps is read off prices instead of solving each: the dual of a batch's fluid program says what a
sequence of each class is worth, and a replica of any kind is worth the most that it could earn in a step. The sum over
batches of what is won and lost ranks all pairs of kinds at the cost of one linear program a batch.
"""

from collections.abc import Iterator
from itertools import permutations
from math import lcm

import numpy as np
import scipy.sparse

from lobra.batch import Array
from policies.deployment.classes import Table
from policies.deployment.rounds import Counts, charged_seconds
from policies.deployment.sampled import sampled_seconds
from policies.deployment.tau import Fluid
from policies.solvers import Program, solve


def exchanges(fluid: Fluid, counts: Counts, by_batch: Array, at_most: float) -> Iterator[Counts]:
    """Neighbours of a plan, the most promising first.

    Only those that hold the longest sequence, and whose fluid without bubbles is faster than `at_most` seconds.
    """
    prices = fluid.prices
    gpus = (prices.gpus * prices.units).tolist()
    worth = _worth(fluid, counts, by_batch)
    ranked = []
    for giver, taker in permutations(range(len(counts)), 2):
        moved = lcm(gpus[giver], gpus[taker])
        given, taken = (moved // gpus[kind] * int(prices.units[kind]) for kind in (giver, taker))
        if counts[giver] < given:
            continue
        changed = list(counts)
        changed[giver] -= given
        changed[taker] += taken
        if np.any(np.array(changed) >= fluid.holders):
            ranked.append((given * worth[giver] - taken * worth[taker], tuple(changed)))
    for _, neighbour in sorted(ranked):
        if sampled_seconds(prices, neighbour, by_batch, bubbles=False).mean() < at_most:
            yield neighbour


def _worth(fluid: Fluid, counts: Counts, by_batch: Array) -> Array:
    """Seconds of a step that one replica more of each kind saves, to first order, summed over the batches; [K]."""
    prices = fluid.prices
    seconds = charged_seconds(fluid, counts, by_batch)
    worth = np.zeros(len(prices.kinds))
    for amounts, limit in zip(by_batch, seconds, strict=True):
        value = _values(prices, counts, amounts)
        earned = np.max(np.where(np.isfinite(prices.each), value / np.maximum(prices.each, 1e-300), 0.0), axis=1)
        worth += earned * np.maximum(limit - prices.bubbles, 0.0)
    return worth


def _values(prices: Table, counts: Counts, amounts: Array) -> Array:
    """What one sequence more of each class adds to the fluid time of a plan; float64 [J].

    max sum_j B_j v_j + sum_i p_i bub_i l_i  s.t.  v_j <= l_i W_ij for kinds of the plan;  sum_i p_i l_i = 1;  l >= 0.
    """
    used = np.flatnonzero(np.array(counts) > 0)
    present = np.flatnonzero(amounts > 0)
    machines = np.array(counts, dtype=np.float64)[used]
    each = prices.each[np.ix_(used, present)]
    row, column = np.nonzero(np.isfinite(each))
    pairs = np.arange(len(row))
    scale = float(np.min(np.where(np.isfinite(each), each, np.inf)))
    ones = np.ones(len(pairs))
    entries = np.concatenate([ones, -each[row, column] / scale, machines / machines.sum()])
    rows = np.concatenate([pairs, pairs, np.full(len(used), len(pairs))])
    columns = np.concatenate([column, len(present) + row, len(present) + np.arange(len(used))])
    size = len(present) + len(used)
    solution = solve(
        Program(
            cost=np.concatenate([-amounts[present], -machines * prices.bubbles[used] / scale]),
            matrix=scipy.sparse.csc_matrix((entries, (rows, columns)), shape=(len(pairs) + 1, size)),
            row_low=np.append(np.full(len(pairs), -np.inf), 1.0),
            row_high=np.append(np.zeros(len(pairs)), 1.0),
            low=np.zeros(size),
            high=np.full(size, np.inf),
            integer=np.zeros(size, dtype=bool),
        )
    )
    values = np.zeros(len(amounts))
    if solution.values is not None:
        values[present] = solution.values[: len(present)] * scale / machines.sum()
    return values
