"""The executor as a backend: feeds directives to ranks, follows their trace, ends the job with one clear line.

`Torchrun` starts the ranks on this machine. `Attached` feeds ranks that srun, Kubernetes or torchrun on several
machines started with the same `python -m executor.worker RUN_DIR`; the folder must then be shared, and the feeder
started first.
Nothing here needs torch.
"""

import fcntl
import shutil
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from executor.ahead import Ahead, Directive
from executor.crew import RANKS
from executor.description import Execution, freeze
from executor.feed import DIRECTIVES, TRACE, Appender, Follower
from executor.refusal import Gate
from executor.supervision import Launcher, Local, Remote, Supervisor
from lobra.errors import BadInput
from lobra.trace import StepReport

_LOOK_SECONDS = 0.01
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Torchrun:
    """Ranks on this machine: by our own launcher, which tells causes better, or by torchrun."""

    run_dir: Path
    execution: Execution
    launcher: Launcher = "own"
    resume: bool = True  # go on where an earlier attempt in run_dir stopped

    def play(self, directives: Iterable[Directive]) -> Iterator[StepReport]:
        """One report a step plan; RankFailure, Preempted, BadInput or Infeasible where it does not come to its end."""
        keeper = Local(self.run_dir, self.execution, self.launcher)
        return _play(self.run_dir, self.execution, directives, keeper, resume=self.resume)


@dataclass(frozen=True, slots=True)
class Attached:
    """Ranks that somebody else starts."""

    run_dir: Path
    execution: Execution
    resume: bool = True

    def play(self, directives: Iterable[Directive]) -> Iterator[StepReport]:
        """As Torchrun's."""
        return _play(self.run_dir, self.execution, directives, Remote(self.run_dir, self.execution), resume=self.resume)


def _play(
    folder: Path, execution: Execution, directives: Iterable[Directive], keeper: Local | Remote, *, resume: bool
) -> Iterator[StepReport]:
    ahead, gate = Ahead(directives), Gate(execution.ranks)
    begun = ahead.prelude()
    for directive in begun:
        gate.check(directive)
    if ahead.ended:
        return  # nothing to play: no rank need start
    with _held(folder):
        _prepare(folder, execution, resume=resume)
        feed = Appender(folder / DIRECTIVES, durable=True, fresh=True)
        reason = "the launcher was left"
        try:
            for directive in begun:
                feed.append(directive)
            with _stop_signals() as asked:
                keeper.start()
                ahead.start()
                ahead.permit()
                yield from _follow(folder, feed, ahead, gate, keeper=keeper, asked=asked)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise
        finally:
            ahead.close()
            keeper.end(reason)
            feed.close()


def _follow(
    folder: Path, feed: Appender, ahead: Ahead, gate: Gate, *, keeper: Supervisor, asked: list[int]
) -> Iterator[StepReport]:
    """Feed what is planned, yield what is reported, until the trace ends and the ranks are gone."""
    started, heeded = folder / RANKS / "started", 0
    with Follower(folder / TRACE) as trace:
        while True:
            _feed(feed, ahead, gate)
            report = trace.noun() if started.exists() else None
            if report is not None:
                ahead.permit()
                yield report
                continue
            try:
                running = keeper.check()
            except Exception:
                yield from _rest(trace, started)
                raise
            if not running:
                if trace.ended:
                    return
                _check_end(trace, folder)
            if len(asked) > heeded:
                heeded += 1
                keeper.stop()
            time.sleep(_LOOK_SECONDS)


def _rest(trace: Follower, started: Path) -> Iterator[StepReport]:
    """What was reported before the job broke off; no acknowledged report is lost."""
    while started.exists():
        report = trace.noun()
        if report is None:
            return
        yield report


def _feed(feed: Appender, ahead: Ahead, gate: Gate) -> None:
    if ahead.ended:
        return
    directive = ahead.take()
    if directive is not None:
        gate.check(directive)
        feed.append(directive)
    elif ahead.ended:
        feed.finish()


def _check_end(trace: Follower, folder: Path) -> None:
    """All ranks are gone and content; what they wrote last may just not have been read yet."""
    if not trace.pending():
        raise BadInput(f"{folder / TRACE}: all ranks ended, but the trace did not; see {folder / RANKS}")


def _prepare(folder: Path, execution: Execution, *, resume: bool) -> None:
    """A folder in which nothing of an earlier attempt can be mistaken for this one."""
    if not resume and (folder / CHECKPOINTS).exists():
        raise BadInput(
            f"run_dir {folder}: it holds checkpoints of an earlier run; resume it, or choose another directory"
        )
    shutil.rmtree(folder / RANKS, ignore_errors=True)
    (folder / RANKS).mkdir()
    freeze(folder, execution)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the job's folder; BadInput where another launcher does, or it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".job-lock").open("w", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"run_dir {folder}: cannot be written ({error.strerror}); choose another directory") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"run_dir {folder}: another launcher uses it; choose another directory") from None
        yield


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """SIGTERM and SIGINT as a growing list, where signals can be heard at all: in the main thread."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def heard(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)

    before: dict[int, Any] = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
