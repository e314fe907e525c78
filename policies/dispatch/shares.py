"""From counts to sequences: which of a bucket's sequences a machine gets.

Buckets are sorted by tenant, so machines get contiguous slices in their order: a tenant's sequences stay together, the
same machines see the same tenants in every bucket, and a micro-batch has few adapter runs.
"""

from itertools import repeat

import numpy as np

from lobra.batch import Array, Bucket
from policies.slices import slices_of


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
        shares = map(Bucket, repeat(bucket.width), slices)
        for machine, share in zip(machines.tolist(), shares, strict=True):
            parts[machine].append(share)
    return tuple(map(tuple, parts))
