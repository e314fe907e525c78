"""Sequences by the thousand: columns instead of objects, frozen outside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lobra.errors import BadInput
from lobra.spec import SequenceRef

Array = npt.NDArray[Any]

COLUMNS = (
    ("tenant", np.dtype(np.int32)),
    ("index", np.dtype(np.int64)),
    ("length", np.dtype(np.int32)),
    ("labels", np.dtype(np.int32)),
)


def frozen(values: Any, dtype: Any) -> Array:
    """A read-only array of that type; copied only where the caller could still write to it."""
    if type(values) is np.ndarray and values.dtype is dtype and not values.flags.writeable:
        return values  # a share of a batch: there are 10^5 of them a step
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy() if array is values else array
        array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The sequences of one step, or a share of them; four columns of equal length, each [n]."""

    step: int
    tenant: Array  # int32
    index: Array  # int64
    length: Array  # int32, tokens
    labels: Array  # int32, tokens that carry loss
    truncated: tuple[int, ...] = ()  # sequences cut to the context limit, a count for each tenant
    dropped: tuple[int, ...] = ()  # sequences left out because they were over-long, likewise

    def __post_init__(self) -> None:
        for field, dtype in COLUMNS:
            given = getattr(self, field)
            column = frozen(given, dtype)
            if column is not given:
                object.__setattr__(self, field, column)
        if not self.tenant.shape == self.index.shape == self.length.shape == self.labels.shape:
            raise BadInput(f"batch of step {self.step}: its columns differ in length")
        if len(self.length) and self.length.min() < 1:
            raise BadInput(
                f"batch of step {self.step}: a sequence has length {self.length.min()}; drop empty sequences first"
            )

    def __len__(self) -> int:
        return len(self.length)

    @property
    def tokens(self) -> int:
        """Tokens of all its sequences."""
        return int(self.length.sum(dtype=np.int64))

    def take(self, positions: Array) -> "Batch":
        """The sequences at these positions, in this order."""
        return Batch(
            self.step, self.tenant[positions], self.index[positions], self.length[positions], self.labels[positions]
        )

    def refs(self) -> list[SequenceRef]:
        """The sequences as objects, in order."""
        columns = (self.tenant.tolist(), self.index.tolist(), self.length.tolist(), self.labels.tolist())
        return list(map(SequenceRef._make, zip(*columns, strict=True)))


def concatenate(step: int, batches: Sequence[Batch]) -> Batch:
    """All sequences of these batches as one."""
    if not batches:
        return empty_batch(step)
    return Batch(
        step,
        np.concatenate([batch.tenant for batch in batches]),
        np.concatenate([batch.index for batch in batches]),
        np.concatenate([batch.length for batch in batches]),
        np.concatenate([batch.labels for batch in batches]),
    )


def empty_batch(step: int) -> Batch:
    """No sequence at all: the share of a replica that idles."""
    nothing = np.zeros(0, np.int64)
    return Batch(step, nothing, nothing, nothing, nothing)


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """Sequences that a dispatcher may exchange freely: none longer than width; sorted by tenant, then index."""

    width: int  # tokens: what a row is padded to, or the upper end of a length class where rows are packed
    sequences: Batch

    @property
    def count(self) -> int:
        """How many sequences it holds."""
        return len(self.sequences)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Lengths that one tenant's sequences have, over-long policy applied, with their probabilities; columns of [n]."""

    lengths: Array  # int32, ascending
    probabilities: Array  # float64, sum 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", frozen(self.lengths, np.int32))
        object.__setattr__(self, "probabilities", frozen(self.probabilities, np.float64))
        if self.lengths.shape != self.probabilities.shape or not len(self.lengths):
            raise BadInput("histogram: lengths and probabilities must be columns of the same length, at least one")
        if abs(float(self.probabilities.sum()) - 1.0) > 1e-6 or self.probabilities.min() < 0:
            raise BadInput(
                f"histogram: probabilities sum to {self.probabilities.sum()}; they must be >= 0 and sum to 1"
            )
