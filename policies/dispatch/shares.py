"""From counts to sequences: which of a bucket's sequences a machine gets.

Buckets are sorted by tenant, so machines get contiguous slices in their order: a tenant's sequences stay together, the
same machines see the same tenants in every bucket, and a micro-batch has few adapter runs.
"""

import numpy as np

from lobra.batch import Array, Batch, Bucket


def shares_of(buckets: tuple[Bucket, ...], counts: Array) -> tuple[tuple[Bucket, ...], ...]:
    """One tuple of bucket parts a machine, ascending widths, empty parts left out; counts is int64 [R, J]."""
    parts: list[list[Bucket]] = [[] for _ in range(len(counts))]
    for column, bucket in enumerate(buckets):
        ends = np.cumsum(counts[:, column])
        if len(ends) == 0 or ends[-1] != bucket.count or counts[:, column].min() < 0:
            raise AssertionError(f"counts of bucket {bucket.width} do not add up to its {bucket.count} sequences")
        for machine in np.flatnonzero(counts[:, column]).tolist():
            end = int(ends[machine])
            parts[machine].append(
                Bucket(bucket.width, slice_of(bucket.sequences, end - int(counts[machine, column]), end))
            )
    return tuple(map(tuple, parts))


def slice_of(batch: Batch, start: int, end: int) -> Batch:
    """Neighbouring sequences of a batch, without copying them."""
    return Batch(
        batch.step,
        batch.tenant[start:end],
        batch.index[start:end],
        batch.length[start:end],
        batch.labels[start:end],
    )
