"""Sorting a batch into buckets: upper ends that respect budgets, and the cut itself."""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Array, Batch, Bucket
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan, Replica
from policies.slices import slice_of

COUNTED = 1 << 20  # tokens up to which lengths are counted instead of sorted


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


def histogram(lengths: Array) -> tuple[Array, Array]:
    """Distinct lengths, ascending, and how many there are of each; int64 [U] both."""
    if lengths.max(initial=0) > COUNTED:
        distinct, counts = np.unique(lengths, return_counts=True)
        return distinct.astype(np.int64), counts
    every = np.bincount(lengths)
    distinct = np.flatnonzero(every)
    return distinct, every[distinct]


def candidates(lengths: Array, counts: Array, step: int, budgets: Array) -> tuple[Array, Array]:
    """Distinct upper ends of these distinct, ascending lengths, ascending, and the count of each."""
    ends = upper_ends(lengths, step, budgets)
    starts = np.flatnonzero(np.diff(ends, prepend=0))
    return ends[starts], np.add.reduceat(counts, starts)


def cut(batch: Batch, boundaries: Array) -> tuple[Bucket, ...]:
    """The batch in buckets (previous boundary, boundary], empty ones left out; sequences by tenant, then index.

    The last boundary must not be below the longest sequence.
    """
    place = _places(batch.length, boundaries)
    tenant, index = batch.tenant, batch.index
    ascending = (tenant[1:] > tenant[:-1]) | ((tenant[1:] == tenant[:-1]) & (index[1:] >= index[:-1]))
    # as workloads bring them: small integers are sorted by radix, in linear time
    order = np.argsort(place, kind="stable") if ascending.all() else np.lexsort((index, tenant, place))
    edges = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(boundaries)))]).tolist()
    everything = _taken(batch, order)
    return tuple(
        Bucket(int(width), slice_of(everything, start, end))
        for width, start, end in zip(boundaries, edges[:-1], edges[1:], strict=True)
        if end > start
    )


def _places(lengths: Array, boundaries: Array) -> Array:
    """Which bucket each length falls into; the smallest unsigned integers that hold the answer."""
    small = np.min_scalar_type(len(boundaries))
    if boundaries[-1] > min(COUNTED, 8 * len(lengths)):
        places: Array = np.searchsorted(boundaries, lengths).astype(small)
        return places
    table = np.repeat(np.arange(len(boundaries), dtype=small), np.diff(boundaries, prepend=-1))
    looked_up: Array = table[lengths]
    return looked_up


def _taken(batch: Batch, order: Array) -> Batch:
    """`batch.take`, without the copy that a Batch makes of columns that its caller could still write to."""
    tenant, index, length, labels = (
        column[order] for column in (batch.tenant, batch.index, batch.length, batch.labels)
    )
    for column in (tenant, index, length, labels):
        column.setflags(write=False)
    return Batch(batch.step, tenant, index, length, labels)


def refuse_too_long(share: Sequence[Bucket], replica: Replica, room: int, lengths: Sequence[int]) -> None:
    """Infeasible if a bucket of the share needs more than `room` tokens for one sequence; lengths: what each needs."""
    for bucket, length in zip(share, lengths, strict=True):
        if length > room:
            tenant = int(bucket.sequences.tenant[np.argmax(bucket.sequences.length)])
            raise Infeasible(
                f"tenant {tenant} has a sequence that needs {length} tokens, but replica {replica.config} was given it "
                f"and holds {room}; send it to a larger replica, or lower the tenant's context_limit"
            )
