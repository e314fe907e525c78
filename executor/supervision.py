"""Watching over a job from outside its ranks: who failed first, and that nobody is left behind."""

import sys
import threading
import time
from pathlib import Path
from typing import Literal, Protocol

from executor.crew import RANKS, Crew
from executor.description import Execution
from executor.failures import Outcome, Preempted, as_error, read_outcome, root_cause
from executor.feeder_pulse import ABORT, NAME, STOP
from executor.progress import read_progress
from lobra.files import write_atomically

GRACE_SECONDS = 0.5  # after the first bad news: a better cause may follow
PATIENCE_SECONDS = 1.0  # the same where the news is only that somebody else is missing
REMOTE_PATIENCE_SECONDS = 3.0  # a shared folder shows things late
SURE = ("input", "infeasible", "died")
SECONDARY = ("waiting", "lost peer")
SLOW_LOOK_SECONDS = 0.5  # where only files tell of an end

Launcher = Literal["own", "torchrun"]


class Supervisor(Protocol):
    """Whoever keeps the ranks."""

    def check(self) -> bool:
        """Whether any rank still runs; raises the cause once one has failed, and what a stop ended in."""

    def stop(self) -> None:
        """Ask all ranks to save and stop; a second time: end them."""

    def end(self, reason: str) -> None:
        """Nobody must be left behind."""


class Local:
    """Ranks that are processes of this machine, children of this one."""

    def __init__(self, folder: Path, execution: Execution, launcher: Launcher) -> None:
        self._crew = Crew(folder, execution.ranks)
        self._folder = folder
        self._execution = execution
        self._by_agent = launcher == "torchrun"
        self._stopping: float | None = None
        self._looked = 0.0

    def start(self) -> None:
        """Start all ranks."""
        if not self._by_agent:
            self._crew.start_ranks(self._execution.threads)
            return
        ranks = f"--nproc-per-node={self._execution.ranks}"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", ranks]
        self._crew.start_agent([*torchrun, "-m", "executor.worker", str(self._folder)], self._execution.threads)

    def check(self) -> bool:
        """Look at the processes; at what they left where one of them has ended."""
        running = self._crew.poll()
        if self._crew.ended() or self._due():
            self._judge()
        if self._stopping is not None and time.monotonic() - self._stopping > self._execution.grace_seconds:
            raise Preempted(
                f"the ranks did not stop within {self._execution.grace_seconds:.0f} s and were ended; "
                "start again to go on from the newest checkpoint"
            )
        return running

    def _due(self) -> bool:
        if not self._by_agent or time.monotonic() - self._looked < SLOW_LOOK_SECONDS:
            return False
        self._looked = time.monotonic()
        return True

    def _judge(self) -> None:
        bad = _bad(self._crew.outcomes())
        if bad:
            raise self._error(self._cause(bad))
        told = self._crew.outcomes().values()
        if any(outcome.kind == "preempted" for outcome in told) and not self._crew.poll():
            raise Preempted("the job stopped as it was told; start again to go on from its checkpoint")

    def _cause(self, bad: list[Outcome]) -> Outcome:
        """Wait a little for a better cause than the first news, no longer than until all have spoken."""
        begun = time.monotonic()
        while root_cause(bad).kind not in SURE and self._crew.poll():
            patience = PATIENCE_SECONDS if root_cause(bad).kind in SECONDARY else GRACE_SECONDS
            if time.monotonic() - begun > patience:
                break
            time.sleep(0.02)
            bad = _bad(self._crew.outcomes())
        self._crew.poll()
        bad = _bad(self._crew.outcomes())
        if root_cause(bad).kind in SECONDARY:
            bad += self._crew.silent()
            if self._by_agent:
                bad += missing(self._folder, self._execution.ranks)
        cause = root_cause(bad)
        if cause.kind in ("hung", "silent", "waiting"):
            self._crew.dump_stacks()
        return cause

    def _error(self, cause: Outcome) -> Exception:
        if self._stopping is not None and cause.kind == "died" and "SIGTERM" in cause.message:
            return Preempted("the job was told to stop before it had begun; start it again")
        return as_error(cause)

    def stop(self) -> None:
        """SIGTERM to all; the second time the end."""
        if self._stopping is not None:
            raise Preempted(
                "told twice to stop, so the ranks were ended; start again to go on from the newest checkpoint"
            )
        self._stopping = time.monotonic()
        self._crew.terminate()

    def end(self, reason: str) -> None:
        """End the processes and their children."""
        del reason
        self._crew.end()


class Remote:
    """Ranks that srun or Kubernetes started elsewhere; files in a shared folder are all there is."""

    def __init__(self, folder: Path, execution: Execution) -> None:
        self._folder = folder
        self._execution = execution
        self._word = ""
        self._over = threading.Event()
        self._first_bad: float | None = None
        self._looked = 0.0
        self._running = True

    def start(self) -> None:
        """Let the ranks hear a pulse, so that they do not outlive their feeder."""
        self._beat(0)
        threading.Thread(target=self._pulse, name="feeder pulse", daemon=True).start()

    def _pulse(self) -> None:
        count = 0
        while not self._over.wait(1.0):
            count += 1
            self._beat(count)

    def _beat(self, count: int) -> None:
        write_atomically(self._folder / NAME, f"{self._word} {count}".strip())

    def check(self) -> bool:
        """Look at what the ranks left."""
        if time.monotonic() - self._looked < SLOW_LOOK_SECONDS:
            return self._running
        self._looked = time.monotonic()
        told = outcomes(self._folder, self._execution.ranks)
        self._running = len(told) < self._execution.ranks
        bad = _bad(told)
        if bad:
            self._first_bad = self._first_bad or time.monotonic()
            if not self._running or time.monotonic() - self._first_bad > REMOTE_PATIENCE_SECONDS:
                if root_cause(bad).kind in SECONDARY:
                    bad += missing(self._folder, self._execution.ranks)
                raise as_error(root_cause(bad))
        elif not self._running and any(outcome.kind == "preempted" for outcome in told.values()):
            raise Preempted("the job stopped as it was told; start again to go on from its checkpoint")
        return self._running

    def stop(self) -> None:
        """Ask through the pulse."""
        self._word = STOP

    def end(self, reason: str) -> None:
        """Tell ranks that still run to give up."""
        self._over.set()
        if self._running:
            write_atomically(self._folder / NAME, f"{ABORT} {reason}")
        else:
            (self._folder / NAME).unlink(missing_ok=True)


def outcomes(folder: Path, ranks: int) -> dict[int, Outcome]:
    """What ranks left so far."""
    found = ((rank, read_outcome(folder / RANKS, rank)) for rank in range(ranks))
    return {rank: outcome for rank, outcome in found if outcome is not None}


def missing(folder: Path, ranks: int) -> list[Outcome]:
    """Ranks that left no word although their peers lost one: the dead cannot speak."""
    told = outcomes(folder, ranks)
    return [
        Outcome(rank, "died", read_progress(folder / RANKS, rank), "it left no word, and its peers lost it", 0.0)
        for rank in range(ranks)
        if rank not in told
    ]


def _bad(told: dict[int, Outcome]) -> list[Outcome]:
    return [outcome for outcome in told.values() if outcome.kind not in ("done", "preempted")]
