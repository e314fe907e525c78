"""How far long work has come: bars on a terminal; elsewhere a plain line for each part, and now and then within it.

All of it goes to stderr.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.walk import Tick

QUIET_SECONDS = 30.0  # a part that takes longer says how far it is


class Reporter:
    """Tells of parts of a job, one after another."""

    def __init__(self, bars: Progress | None, parts: int, stream: TextIO) -> None:
        self._bars = bars
        self._stream = stream
        self._parts = parts
        self._number = 0

    @contextmanager
    def part(self, name: str, steps: int) -> Iterator[Tick]:
        """One part of so many steps; call what it gives after each. A part that takes no step is not told of."""
        self._number += 1
        started, taken = time.perf_counter(), 0
        told = started
        task = self._bars.add_task(name, total=steps) if self._bars is not None else None

        def tick() -> None:
            nonlocal taken, told
            taken += 1
            now = time.perf_counter()
            if self._bars is not None and task is not None:
                self._bars.advance(task)
            elif now - told > QUIET_SECONDS:
                told = now
                self._told(self._number, f"{name}, step {taken} of {steps}", now - started)

        yield tick
        if self._bars is None and taken:
            self._told(self._number, name, time.perf_counter() - started)

    @contextmanager
    def together(self) -> Iterator[Callable[[str, float], None]]:
        """All parts at once; call what it gives with each that is finished, and its seconds."""
        task = self._bars.add_task("policies", total=self._parts) if self._bars is not None else None

        def finished(name: str, seconds: float) -> None:
            self._number += 1
            if self._bars is not None and task is not None:
                self._bars.update(task, advance=1, description=name)
            else:
                self._told(self._number, name, seconds)

        yield finished

    def _told(self, number: int, name: str, seconds: float) -> None:
        self._stream.write(f"{number}/{self._parts} {name}: {seconds:.1f} s\n")
        self._stream.flush()


@contextmanager
def reporting(parts: int) -> Iterator[Reporter]:
    """A Reporter that suits what stderr is."""
    stream = sys.stderr
    if not stream.isatty():
        yield Reporter(None, parts, stream)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream)) as bars:
        yield Reporter(bars, parts, stream)
