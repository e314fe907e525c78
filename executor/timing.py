"""Spans of work: perf_counter on the CPU, events on a GPU, read once the step is over."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch

from lobra.trace import Span, SpanKind


class StepClock(Protocol):
    """What an engine times itself with."""

    def __call__(self, kind: SpanKind, microbatch: int = -1) -> AbstractContextManager[None]:
        """Time a block."""

    def take(self) -> tuple[Span, ...]:
        """The spans since the last call."""


class ClockMaker(Protocol):
    """Makes the clock of a place in a deployment."""

    def __call__(self, replica: int, stage: int, device: torch.device, origin: float) -> StepClock:
        """Spans of this stage, in seconds since `origin`."""


class Clock:
    """Collects the spans of one stage; seconds since `origin`, a reading of time.perf_counter."""

    def __init__(self, replica: int, stage: int, device: torch.device, origin: float) -> None:
        self._where = replica, stage
        self._origin = origin
        self._device = device
        self._spans: list[Span] = []
        self._events: list[tuple[int, SpanKind, torch.cuda.Event, torch.cuda.Event]] = []
        self._zero: tuple[torch.cuda.Event, float] | None = None

    @contextmanager
    def __call__(self, kind: SpanKind, microbatch: int = -1) -> Iterator[None]:
        """Time a block."""
        if self._device.type == "cuda":
            if self._zero is None:
                torch.cuda.synchronize(self._device)
                self._zero = self._mark(), time.perf_counter()
            begun = self._mark()
            yield
            self._events.append((microbatch, kind, begun, self._mark()))
            return
        start = time.perf_counter()
        yield
        end = time.perf_counter()
        self._spans.append(Span(*self._where, microbatch, kind, start - self._origin, end - self._origin))

    def _mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def take(self) -> tuple[Span, ...]:
        """The spans since the last call."""
        if self._zero is not None:
            torch.cuda.synchronize(self._device)
            zero, at = self._zero
            for microbatch, kind, begun, ended in self._events:
                start, end = (at - self._origin + zero.elapsed_time(event) / 1e3 for event in (begun, ended))
                self._spans.append(Span(*self._where, microbatch, kind, start, end))
            self._events, self._zero = [], None
        spans, self._spans = tuple(self._spans), []
        return spans
