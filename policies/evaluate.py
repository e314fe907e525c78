"""The exact evaluator: one formula by which every part of every policy is judged."""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Array
from lobra.plan import MicroBatch, Replica
from lobra.protocols import CostModel
from lobra.rates import Loads
from lobra.schedule import closed_form


def count_seconds(loads: Loads, counts: Array) -> Array:
    """Seconds of replicas with these Loads for counts [..., J] of sequences; shape [...].

    Micro-batches are split evenly: for convex costs no other split of the same number is faster. A count in a bucket
    that does not fit costs infinity.
    """
    capacity = np.maximum(loads.capacity, 1)
    number = -(-counts // capacity)
    small, rest = np.divmod(counts, np.maximum(number, 1))
    slow = np.maximum(loads.floor, loads.fixed + loads.each * (small + 1))
    fast = np.maximum(loads.floor, loads.fixed + loads.each * small)
    total = np.sum(np.where(counts > 0, rest * slow + (number - rest) * fast, 0.0), axis=-1)
    if loads.longest is not None:
        longest = np.where(np.any(counts > 0, axis=-1), loads.longest, 0.0)
    else:
        longest = np.max(np.where(counts > 0, np.where(rest > 0, slow, fast), 0.0), axis=-1, initial=0.0)
    impossible = np.any((counts > 0) & (loads.capacity < 1), axis=-1)
    return np.where(impossible, np.inf, total + (loads.stages - 1) * longest)


def microbatch_seconds(microbatch: MicroBatch, replica: Replica, cost: CostModel) -> float:
    """Forward plus backward of the slowest stage."""
    shape = microbatch.shape
    return max(
        cost.stage_seconds(replica, stage, shape, "forward") + cost.stage_seconds(replica, stage, shape, "backward")
        for stage in range(replica.config.pp)
    )


def work_seconds(work: Sequence[MicroBatch], replica: Replica, cost: CostModel) -> float:
    """Seconds of one replica for its micro-batches, by the closed form."""
    return closed_form((microbatch_seconds(microbatch, replica, cost) for microbatch in work), replica.config.pp)
