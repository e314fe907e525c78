"""Neighbouring sequences of a batch as batches of their own, without copying them."""

from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from lobra.batch import COLUMNS, Batch


def slice_of(batch: Batch, start: int, end: int) -> Batch:
    """The sequences from `start` up to `end`."""
    return slices_of(batch, [start], [end])[0]


def slices_of(batch: Batch, starts: Sequence[int], ends: Sequence[int]) -> list[Batch]:
    """Many such parts. There are thousands a step: what a batch has checked of its columns is not checked again.

    Columns are written for all parts at once, by the slots of the frozen class: half as long as part by part.
    """
    slots: Any = Batch
    cuts = list(map(slice, starts, ends))
    parts = list(map(object.__new__, repeat(Batch, len(cuts))))
    for name, _ in COLUMNS:
        deque(map(getattr(slots, name).__set__, parts, map(getattr(batch, name).__getitem__, cuts)), maxlen=0)
    for name, value in (("step", batch.step), ("truncated", ()), ("dropped", ())):
        deque(map(getattr(slots, name).__set__, parts, repeat(value)), maxlen=0)
    return parts
