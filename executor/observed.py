"""An engine whose every phase is a mark of progress."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from executor.engine import Engine
from executor.timing import Clock
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
        self.watch.mark(kind, microbatch)
        with self.clock(kind, microbatch):
            yield

    def take(self) -> tuple[Span, ...]:
        """The spans since the last call."""
        return self.clock.take()


def observe(engine: Engine, watch: Watch) -> None:
    """From now on the engine's phases mark progress; to be called after each deployment."""
    engine._clock = ObservedClock(engine._clock, watch)  # type: ignore[assignment]  # noqa: SLF001
