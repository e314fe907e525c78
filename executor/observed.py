"""A clock whose every block is a mark of progress."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from executor.timing import Clock, ClockMaker
from executor.watch import Watch
from lobra.trace import Span, SpanKind


@dataclass(frozen=True, slots=True)
class ObservedClock:
    """A clock that tells the watch what begins."""

    clock: Clock
    watch: Watch

    @contextmanager
    def __call__(self, kind: SpanKind, microbatch: int = -1) -> Iterator[None]:
        """Time a block."""
        self.watch.mark("deployment" if kind == "deploy" else kind, microbatch)
        with self.clock(kind, microbatch):
            yield

    def take(self) -> tuple[Span, ...]:
        """The spans since the last call."""
        return self.clock.take()


def observed(watch: Watch) -> ClockMaker:
    """Makes clocks that mark progress."""

    def make(replica: int, stage: int, device: torch.device, origin: float) -> ObservedClock:
        return ObservedClock(Clock(replica, stage, device, origin), watch)

    return make
