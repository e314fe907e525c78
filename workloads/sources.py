"""Where a tenant's sequences come from: a law of lengths without end, or the rows of a real data set."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lobra.batch import Array, frozen
from lobra.errors import BadInput
from workloads.samplers import Sampler, draw, walk
from workloads.streams import Stream
from workloads.table import LengthTable


class Drawn(NamedTuple):
    """Sequences of one tenant in one step, before any context limit; columns [n] of int64."""

    index: Array  # type: ignore[assignment]  # the name it has in a batch; tuple.index is not used on it
    length: Array
    labels: Array


@dataclass(frozen=True, slots=True, eq=False)
class Endless:
    """Sequences drawn from a law of lengths; every token carries loss. index: position in the endless stream."""

    table: LengthTable

    @property
    def size(self) -> None:
        """It has no number of rows."""
        return

    @property
    def empty(self) -> int:
        """A length is at least 1."""
        return 0

    @property
    def certain_longest(self) -> int | None:
        """The longest length that surely comes some day; None where the law has no upper end."""
        return self.table.longest if self.table.bounded else None

    def known(self) -> tuple[Array, Array]:
        """All lengths, and the probability of each."""
        return self.table.lengths, self.table.probabilities

    def draw(self, stream: Stream, step: int, count: int, sampler: Sampler) -> Drawn:
        """The sequences of one step."""
        lengths = draw(self.table, stream.generator("step", step), count, sampler)
        return Drawn(step * count + np.arange(count), lengths, lengths)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A data set, walked again and again, each epoch in another order. index: row + epoch * size."""

    lengths: Array  # int64 [size], all >= 1
    labels: Array  # int64 [size], tokens that carry loss
    empty: int = 0  # rows without a token, left out beforehand

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", frozen(self.lengths, np.int64))
        object.__setattr__(self, "labels", frozen(self.labels, np.int64))

    @property
    def size(self) -> int:
        """Rows of an epoch."""
        return len(self.lengths)

    @property
    def certain_longest(self) -> int:
        """The longest row."""
        return int(self.lengths.max())

    def known(self) -> tuple[Array, Array]:
        """The distinct lengths, and the share of each."""
        lengths, counts = np.unique(self.lengths, return_counts=True)
        return lengths, counts / self.size

    def draw(self, stream: Stream, step: int, count: int, sampler: Sampler) -> Drawn:
        """The sequences of one step; count is at most size, so that no step sees a row twice without need."""
        positions = step * count + np.arange(count)
        epochs = positions // self.size
        rows = np.empty(count, np.int64)
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            order = walk(self.lengths, stream.generator("epoch", epoch), sampler)
            inside = epochs == epoch
            rows[inside] = order[positions[inside] % self.size]
        return Drawn(rows + epochs * self.size, self.lengths[rows], self.labels[rows])


Source = Endless | Rows


def without_empty(lengths: Array, labels: Array, owner: str) -> Rows:
    """Rows of at least one token; the empty ones are counted. BadInput where nothing is left."""
    kept = lengths > 0
    if not kept.any():
        raise BadInput(f"{owner}: it has no sequence ({len(lengths)} empty ones); give at least one that is not empty")
    return Rows(lengths[kept], labels[kept], empty=int(len(lengths) - kept.sum()))
