"""What no dispatch can beat: the most awkward sequence alone, on the kind that suits it best.

A machine that holds a sequence is busy at least as long as with that sequence alone: micro-batches of more rows take no
less, and neither does their longest. Cost: one evaluation of every bucket on every kind.
"""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Array
from lobra.rates import Loads


def latency_bound(loads: Sequence[Loads], replicas: Sequence[int], counts: Array) -> float:
    """Seconds that the most awkward of these counts [J] takes alone on the best kind that has machines.

    Bounds every dispatch by the exact evaluator, for costs that do not fall with the number of sequences; a simulator
    too where all stages of a pipeline are equal and transfers take no time off. Where rows are packed it is as certain
    as the counts' own price of a full micro-batch.
    """
    present = [_alone(kind) for kind, number in zip(loads, replicas, strict=True) if number > 0]
    if not present:
        return float("inf") if np.any(counts > 0) else 0.0
    return float(np.max(np.where(counts > 0, np.min(np.stack(present), axis=0), 0.0), initial=0.0))


def _alone(loads: Loads) -> Array:
    """Seconds of one sequence of each bucket on a machine of its own, by the exact evaluator's formula; float64 [J]."""
    single = np.maximum(loads.floor, loads.fixed + loads.each)
    longest = single if loads.longest is None else loads.longest
    return np.where(loads.capacity > 0, single + (loads.stages - 1) * longest, np.inf)
