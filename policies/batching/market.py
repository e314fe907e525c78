"""What widths are worth on a plan: the fluid program seen from its dual side.

A plan of p_i replicas of kind i that computes a sequence of width u in at least W_i(u) seconds needs, as a fluid,
max sum_j B_j v_j with v_j <= y_i W_i(u_j) and sum_i p_i y_i = 1: y_i is what a second of a replica of kind i is worth.
Its optimum is the fluid makespan of the plan (strong duality), and min_i y_i W_i(u) is what one more sequence of any
width would add to it. One program of J + K columns, about a millisecond.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from lobra.batch import Array
from lobra.plan import DeploymentPlan
from lobra.protocols import CostModel
from lobra.rates import Loads
from policies.bounds.fluid import least_each
from policies.machines import Machine, kinds_of
from policies.solvers import Program, solve


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Seconds that a sequence costs at the least, by kind of replica and width; K kinds, U widths."""

    each: Array  # float64 [K, U]; inf where it does not fit
    replicas: Array  # int64 [K]
    gpus: Array  # int64 [K], of one replica

    def fluid(self, places: Array, counts: Array) -> tuple[float, Array]:
        """Seconds of the fluid for `counts` [J] sequences of the widths at `places` [J], and worths of seconds [K].

        Every width must fit a kind.
        """
        load = self.each[:, places] * counts
        scale = float(load.min(axis=0).sum() / self.replicas.sum())
        kinds, columns = np.nonzero(np.isfinite(load))
        pairs, buckets, replicas = len(kinds), load.shape[1], self.replicas.astype(np.float64)
        row = np.arange(pairs)
        matrix = scipy.sparse.csc_matrix(
            (
                np.concatenate([np.ones(pairs), -load[kinds, columns] / scale, replicas]),
                (
                    np.concatenate([row, row, np.full(len(replicas), pairs)]),
                    np.concatenate([columns, buckets + kinds, buckets + np.arange(len(replicas))]),
                ),
            ),
            shape=(pairs + 1, buckets + len(replicas)),
        )
        size = buckets + len(replicas)
        program = Program(
            cost=np.concatenate([-np.ones(buckets), np.zeros(len(replicas))]),
            matrix=matrix,
            row_low=np.append(np.full(pairs, -np.inf), 1.0),
            row_high=np.append(np.zeros(pairs), 1.0),
            low=np.zeros(size),
            high=np.full(size, np.inf),
            integer=np.zeros(size, dtype=bool),
        )
        solution = solve(program)
        if solution.values is None:
            raise RuntimeError(f"the dual of the fluid program ended as {solution.status}; it always has an optimum")
        return -solution.objective * scale, solution.values[buckets:]

    def prices(self, worths: Array) -> Array:
        """What one more sequence of each width adds to the makespan if seconds are worth that; [U], not descending."""
        with np.errstate(invalid="ignore"):  # nothing times infinity: a kind that idles still cannot hold the width
            options = np.where(np.isfinite(self.each), worths[:, None] * self.each, np.inf)
        return np.maximum.accumulate(options.min(axis=0))

    @property
    def even(self) -> Array:
        """Worths of seconds where every GPU second is worth the same; [K]."""
        worths: Array = self.gpus / float(self.gpus @ self.replicas)
        return worths


def market_of(widths: Array, plan: DeploymentPlan, cost: CostModel) -> Market:
    """The market of padded widths, ascending, on the plan's replicas by themselves."""
    examples, kind = kinds_of(tuple(map(Machine, plan.replicas)))
    each = []
    for example in examples:
        replica = example.replica
        rates = cost.rates(replica.config, widths)
        loads = Loads(replica.budget // widths, rates.fixed, rates.row, rates.floor, replica.config.pp)
        each.append(least_each(loads))
    gpus = np.array([example.replica.config.gpus for example in examples])
    return Market(np.stack(each), np.bincount(kind, minlength=len(examples)), gpus)
