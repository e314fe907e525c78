"""What a planner expects: batches it draws itself, and the longest sequence it must be ready for.

A plan is made before any batch is seen, so the planner draws its own from the tenants' length histograms, i.i.d.,
from streams of its own: never the batches that will come. It judges plans on them and averages their buckets. The
paper's code plans on one expected batch instead: a sample a hundred times as large, bucketed once, its counts rounded
per tenant. Those are not the buckets that a step gets, which cost up to 12 % of the step time in prototypes with large
batches, so it is offered for comparison only.
"""

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lobra.batch import Array, Batch, Bucket, concatenate
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.protocols import Batching, CostModel, Workload

Longest = Literal["limit", "histogram"]

_ALIGNMENT = 16  # tokens; the released code's
_STREAM = zlib.crc32(b"planning batches")  # keeps these streams apart from the workload's own


@dataclass(frozen=True, slots=True)
class LongestSequence:
    """The longest sequence that any tenant may bring."""

    tenant: str
    tokens: int
    reason: str  # why it may come


def longest_sequence(workload: Workload, longest: Longest = "limit") -> LongestSequence:
    """By the tenants' context limits (a promise to them), or by their histograms (what was seen so far)."""
    if longest not in ("limit", "histogram"):
        raise BadInput(f"deployment: longest is {longest!r}; choose limit or histogram")
    found = []
    for number, tenant in enumerate(workload.tenants):
        tokens, reason = tenant.context_limit, "its context_limit"
        if longest == "histogram":
            histogram = workload.lengths(number)
            tokens, reason = int(histogram.lengths[histogram.probabilities > 0].max()), "the longest of its lengths"
        found.append(LongestSequence(tenant.name, tokens, reason))
    return max(found, key=lambda sequence: sequence.tokens)  # the first of equals


def planning_batches(workload: Workload, count: int, seed: int) -> tuple[Batch, ...]:
    """`count` batches drawn from the histograms; a tenant's draws depend on seed, its name and the batch's number."""
    if count < 1:
        raise BadInput(f"deployment: the number of planning batches is {count}; at least 1 is needed")
    if seed < 0:
        raise BadInput(f"deployment: seed is {seed}; it must not be negative")
    return tuple(_draw(workload, step, seed) for step in range(count))


def _draw(workload: Workload, step: int, seed: int) -> Batch:
    columns = []
    for number, tenant in enumerate(workload.tenants):
        histogram = workload.lengths(number)
        stream = np.random.default_rng([_STREAM, seed, zlib.crc32(tenant.name.encode()), step])
        lengths = stream.choice(histogram.lengths, tenant.batch_size, p=_exact(histogram.probabilities))
        columns.append(_batch(step, number, lengths))
    return concatenate(step, columns)


def single(tokens: int) -> Batch:
    """A batch of one sequence of the first tenant."""
    return _batch(0, 0, np.full(1, tokens))


def _exact(probabilities: Array) -> Array:
    exact: Array = probabilities / probabilities.sum()
    return exact


def _batch(step: int, tenant: int, lengths: Array) -> Batch:
    return Batch(step, np.full(len(lengths), tenant), np.arange(len(lengths)), lengths, lengths)


def paper_batch(
    workload: Workload, batching: Batching, plan: DeploymentPlan, cost: CostModel, longest: int, *, samples: int = 100
) -> tuple[tuple[Bucket, ...], Array]:
    """The paper's expected batch: buckets of a pooled sample, and how many sequences of each a step has; int64 [1, J].

    The sample holds round(samples * batch_size * probability) sequences of each length, lengths rounded up to multiples
    of 16, and one of the longest if it has none. Counts are rounded per tenant; the last bucket expects one at least.
    """
    columns = []
    for number, tenant in enumerate(workload.tenants):
        histogram = workload.lengths(number)
        aligned, place = np.unique(-(-histogram.lengths // _ALIGNMENT) * _ALIGNMENT, return_inverse=True)
        copies = np.rint(samples * tenant.batch_size * np.bincount(place, weights=histogram.probabilities))
        columns.append(_batch(0, number, np.repeat(np.minimum(aligned, longest), copies.astype(np.int64))))
    pooled = concatenate(0, columns)
    if not len(pooled) or pooled.length.max() < longest:
        one = Batch(0, np.zeros(1), np.full(1, len(pooled)), np.full(1, longest), np.full(1, longest))
        pooled = concatenate(0, [pooled, one])
    buckets = batching.bucket(pooled, plan, cost)
    counts = np.zeros(len(buckets), np.int64)
    for number, tenant in enumerate(workload.tenants):
        inside = np.array([np.count_nonzero(bucket.sequences.tenant == number) for bucket in buckets])
        counts += np.rint(inside / max(1, inside.sum()) * tenant.batch_size).astype(np.int64)
    counts[-1] = max(1, counts[-1])
    return buckets, counts[None, :]
