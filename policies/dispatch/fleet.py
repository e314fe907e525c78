"""A fleet of machines and what counts of sequences cost on it: the view of a plan that dispatchers compute with.

Shapes: K kinds of machines, R machines, J buckets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Bucket
from lobra.errors import Infeasible
from lobra.protocols import Batching, CostModel
from lobra.rates import Loads
from policies.evaluate import count_seconds
from policies.machines import Machine, kinds_of


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """Machines of a few kinds; machines of a kind are exchangeable."""

    loads: tuple[Loads, ...]  # one a kind
    kind: Array  # int64 [R]

    @property
    def sizes(self) -> Array:
        """Machines of each kind; int64 [K]."""
        return np.bincount(self.kind, minlength=len(self.loads))

    @property
    def fits(self) -> Array:
        """Whether a kind holds a bucket at all; bool [K, J]."""
        return np.stack([loads.capacity > 0 for loads in self.loads])

    def seconds(self, counts: Array) -> Array:
        """Seconds of every machine for counts [R, J], by the exact evaluator; float64 [R]."""
        result = np.zeros(len(self.kind))
        for kind, loads in enumerate(self.loads):
            members = self.kind == kind
            result[members] = count_seconds(loads, counts[members])
        return result


def fleet_of(buckets: tuple[Bucket, ...], machines: Sequence[Machine], batching: Batching, cost: CostModel) -> Fleet:
    """What the buckets' sequences cost on these machines; Infeasible where a bucket fits none of them."""
    examples, kind = kinds_of(machines)
    loads = tuple(batching.loads(buckets, example.replica, cost, shards=example.shards) for example in examples)
    _check_fits(buckets, examples, loads)
    return Fleet(loads, kind)


def _check_fits(buckets: tuple[Bucket, ...], examples: Sequence[Machine], loads: Sequence[Loads]) -> None:
    """Refuse a bucket that no machine holds, naming its width, the longest that fits and the way out."""
    held = {bucket.width for kind in loads for bucket, room in zip(buckets, kind.capacity, strict=True) if room > 0}
    lost = [bucket.width for bucket in buckets if bucket.width not in held]
    if not lost:
        return
    largest = max(example.replica.budget * example.shards for example in examples)
    raise Infeasible(
        f"dispatch: a bucket of width {max(lost)} fits no replica of the plan; the longest that fits is {largest} "
        f"tokens; cut longer sequences (overlong: truncate) or plan a replica with a budget of {max(lost)}"
    )


def bucket_counts(buckets: tuple[Bucket, ...]) -> Array:
    """How many sequences each bucket holds; int64 [J]."""
    return np.array([bucket.count for bucket in buckets], dtype=np.int64)
