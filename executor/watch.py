"""A rank's eye on itself: what it does, whether it still moves, and whether it was asked to stop."""

import faulthandler
import linecache
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from executor.description import Fault
from executor.failures import Kind, Outcome, exit_code, write_outcome
from executor.progress import STARTING, Progress

_LOOK_SECONDS = 0.1
_COLLECTIVE = ("torch/distributed/", "executor/control.py")
_WAITS = (".wait(", "all_reduce", "all_gather", "barrier", "broadcast", "batch_isend_irecv")


class Watch:
    """Marks of progress. A rank that makes none for its allowance leaves word, dumps its stacks and ends."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.folder = folder
        self.rank = rank
        self.stop = False  # asked to stop
        self.phase = STARTING
        self.step = -1  # of the step plans played, counted from 0
        self._faults: list[Fault] = []
        self._progress = Progress(folder, rank)
        self._allowance = float("inf")
        self._marked = time.monotonic()
        self._main = threading.main_thread().ident

    def start(self) -> None:
        """Listen to signals and begin to watch. SIGUSR1 dumps the stacks into the rank's log at any time."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    def expect(self, faults: Sequence[Fault]) -> None:
        """Commit these faults when their marks come; the other ranks' are left to them."""
        self._faults = [fault for fault in faults if fault.rank == self.rank]

    def _asked(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stop = True

    @contextmanager
    def allowing(self, seconds: float) -> Iterator[None]:
        """Within this block, seconds without a mark count as a hang."""
        before, self._allowance = self._allowance, seconds
        self._marked = time.monotonic()
        yield
        self._allowance, self._marked = before, time.monotonic()

    def mark(self, phase: str, microbatch: int = -1) -> None:
        """Say what begins now."""
        where = f"step {self.step}, {phase}" if self.step >= 0 else phase
        self.phase = f"{where} of micro-batch {microbatch}" if microbatch >= 0 else where
        self._marked = time.monotonic()
        self._progress.write(self.phase)
        if self._faults:
            self._misbehave(phase)

    def leave_word(self, kind: Kind, message: str) -> None:
        """Tell how this rank ends."""
        write_outcome(self.folder, Outcome(self.rank, kind, self.phase, message, time.time()))

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            idle = time.monotonic() - self._marked
            if idle > self._allowance:
                self._give_up(idle)

    def _give_up(self, idle: float) -> None:
        kind, place = _stuck(self._main)
        self.leave_word(kind, f"no progress for {idle:.1f} s at {place}")
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        os._exit(exit_code(kind))

    def _misbehave(self, phase: str) -> None:
        for fault in self._faults:
            if fault.step == self.step and fault.phase == phase:
                self._faults.remove(fault)
                commit(fault)
                return


def commit(fault: Fault) -> None:
    """Do to this process what the fault says."""
    match fault.kind:
        case "raise":
            raise RuntimeError("a fault that was asked for")
        case "hang":
            time.sleep(1e6)
        case "exit":
            os._exit(3)
        case "kill" | "freeze" | "terminate":
            numbers = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "terminate": signal.SIGTERM}
            os.kill(os.getpid(), numbers[fault.kind])


def _stuck(main: int | None) -> tuple[Kind, str]:
    """Whether any thread stands in a collective (this rank then waits for another), and where the main thread is."""
    frames: dict[int, Any] = sys._current_frames()  # noqa: SLF001 -- the only way to see another thread's stack
    frames.pop(threading.get_ident(), None)
    frame = frames.get(main or 0)
    waiting = _waits(frame) or any(_in_collective(other) for other in frames.values())
    place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else "an unknown place"
    return ("waiting" if waiting else "hung"), place


def _waits(frame: FrameType | None) -> bool:
    """Whether the line it stands at waits for a message."""
    return frame is not None and any(
        word in linecache.getline(frame.f_code.co_filename, frame.f_lineno) for word in _WAITS
    )


def _in_collective(frame: FrameType | None) -> bool:
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _COLLECTIVE):
            return True
        frame = frame.f_back
    return False
