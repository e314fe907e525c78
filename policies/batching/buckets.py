"""Sorting a batch into buckets: upper ends that respect budgets, and the cut itself."""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Array, Batch, Bucket
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan, Replica


def distinct_budgets(plan: DeploymentPlan) -> Array:
    """The budgets of the plan's replicas, each once, ascending; [K] tokens."""
    return np.unique([replica.budget for replica in plan.replicas])


def upper_ends(lengths: Array, step: int, budgets: Array) -> Array:
    """Each length rounded up to a multiple of `step`, but never beyond the smallest budget that holds it; [n] tokens.

    So rounding takes no replica away from a sequence. Above the largest budget only a group of replicas can hold a
    sequence; there the limit is the next multiple of the largest budget. Monotone in the length.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    rounded = -(-lengths // step) * step
    place = np.searchsorted(budgets, lengths)
    limit = np.where(
        place < len(budgets),
        budgets[np.minimum(place, len(budgets) - 1)],
        -(-lengths // budgets[-1]) * budgets[-1],
    )
    ends: Array = np.minimum(rounded, limit)
    return ends


def cut(batch: Batch, boundaries: Array) -> tuple[Bucket, ...]:
    """The batch in buckets (previous boundary, boundary], empty ones left out; sequences by tenant, then index.

    The last boundary must not be below the longest sequence.
    """
    place = np.searchsorted(boundaries, batch.length)
    order = np.lexsort((batch.index, batch.tenant, place))
    edges = np.searchsorted(place[order], np.arange(len(boundaries) + 1))
    return tuple(
        Bucket(int(width), batch.take(order[start:end]))
        for width, start, end in zip(boundaries, edges[:-1], edges[1:], strict=True)
        if end > start
    )


def refuse_too_long(share: Sequence[Bucket], replica: Replica, room: int, lengths: Sequence[int]) -> None:
    """Infeasible if a bucket of the share needs more than `room` tokens for one sequence; lengths: what each needs."""
    for bucket, length in zip(share, lengths, strict=True):
        if length > room:
            tenant = int(bucket.sequences.tenant[np.argmax(bucket.sequences.length)])
            raise Infeasible(
                f"tenant {tenant} has a sequence that needs {length} tokens, but replica {replica.config} was given it "
                f"and holds {room}; send it to a larger replica, or lower the tenant's context_limit"
            )
