"""From counts to sequences: which of a bucket's sequences a machine gets.

Buckets are sorted by tenant, so machines get contiguous slices in their order: a tenant's sequences stay together, the
same machines see the same tenants in every bucket, and a micro-batch has few adapter runs.
"""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Array, Batch, Bucket


def shares_of(buckets: tuple[Bucket, ...], counts: Array) -> tuple[tuple[Bucket, ...], ...]:
    """One tuple of bucket parts a machine, ascending widths, empty parts left out; counts is int64 [R, J]."""
    parts: list[list[Bucket]] = [[] for _ in range(len(counts))]
    for column, bucket in enumerate(buckets):
        held = counts[:, column]
        if not len(held) or held.sum() != bucket.count or held.min() < 0:
            raise AssertionError(f"counts of bucket {bucket.width} do not add up to its {bucket.count} sequences")
        machines = np.flatnonzero(held)
        ends = np.cumsum(held[machines])
        slices = slices_of(bucket.sequences, (ends - held[machines]).tolist(), ends.tolist())
        for machine, part in zip(machines.tolist(), slices, strict=True):
            parts[machine].append(Bucket(bucket.width, part))
    return tuple(map(tuple, parts))


def slice_of(batch: Batch, start: int, end: int) -> Batch:
    """Neighbouring sequences of a batch, without copying them."""
    return slices_of(batch, [start], [end])[0]


def slices_of(batch: Batch, starts: Sequence[int], ends: Sequence[int]) -> list[Batch]:
    """Many such parts. There are thousands a step: what a batch has checked of its columns is not checked again."""
    step, tenant, index, length, labels = batch.step, batch.tenant, batch.index, batch.length, batch.labels
    write, parts = object.__setattr__, []
    for start, end in zip(starts, ends, strict=True):
        part = object.__new__(Batch)
        write(part, "step", step)
        write(part, "tenant", tenant[start:end])
        write(part, "index", index[start:end])
        write(part, "length", length[start:end])
        write(part, "labels", labels[start:end])
        write(part, "truncated", ())
        write(part, "dropped", ())
        parts.append(part)
    return parts
