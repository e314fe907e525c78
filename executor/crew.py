"""The processes of a local job: started together, watched together, ended together."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from executor.failures import Outcome, death, read_outcome
from executor.parentage import killed_with_parent
from executor.progress import read_progress

DUMP_SECONDS = 0.2  # for writing stacks
RANKS = "ranks"  # folder of what ranks leave beside the streams


@dataclass(slots=True)
class _Member:
    rank: int | None  # None: an agent that starts the ranks itself
    process: subprocess.Popen[bytes]
    code: int | None = None  # exit status once it ended; negative: the signal


class Crew:
    """Processes of one job, each in a session of its own so that its children can be ended with it."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self._folder = folder
        self._ranks = ranks
        self._members: list[_Member] = []
        self._deaths: dict[int, Outcome] = {}

    def start_ranks(self, threads: int) -> None:
        """One process a rank, here. The store's socket is bound already, so that no port can be taken meanwhile."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(self._ranks)
            port = listener.getsockname()[1]
            for rank in range(self._ranks):
                own = listener.fileno() if rank == 0 else -1
                command = [sys.executable, "-m", "executor.worker", str(self._folder), f"--store-socket={own}"]
                environment = rank_environment(rank, self._ranks, port, threads)
                self._start(rank, command, environment, (own,) if rank == 0 else ())

    def start_agent(self, command: Sequence[str], threads: int) -> None:
        """A process that starts the ranks itself, such as torchrun."""
        told = {"OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo", "PYTHONUNBUFFERED": "1"}
        self._start(None, list(command), {**os.environ, **told}, ())

    def _start(self, rank: int | None, command: list[str], environment: dict[str, str], keep: tuple[int, ...]) -> None:
        name = "agent" if rank is None else f"rank-{rank}"
        with (self._folder / RANKS / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 -- our own module, no shell
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=keep,
                start_new_session=True,
                preexec_fn=killed_with_parent(),  # noqa: PLW1509 -- one system call, prepared before the fork
            )
        self._members.append(_Member(rank, process))

    def poll(self) -> bool:
        """Notice who ended; whether anybody still runs."""
        for member in self._members:
            if member.code is not None:
                continue
            member.code = _status(member.process.pid)
            if member.code is None:
                continue
            if member.rank is not None and read_outcome(self._folder / RANKS, member.rank) is None:
                phase = read_progress(self._folder / RANKS, member.rank)
                self._deaths[member.rank] = Outcome(member.rank, "died", phase, death(member.code), time.time())
        return any(member.code is None for member in self._members)

    def ended(self) -> bool:
        """Whether any process has ended; an agent's end without any rank's word counts as the death of rank 0."""
        for member in self._members:
            if member.rank is None and member.code and not self.outcomes():
                phase = read_progress(self._folder / RANKS, 0)
                told = f"torchrun ended before any rank could speak; see {self._folder / RANKS / 'agent.log'}"
                self._deaths[0] = Outcome(0, "died", phase, told, time.time())
        return any(member.code is not None for member in self._members)

    def outcomes(self) -> dict[int, Outcome]:
        """How ranks ended so far: what they left, or what was seen of them."""
        found = dict(self._deaths)
        for rank in range(self._ranks):
            left = read_outcome(self._folder / RANKS, rank)
            if left is not None:
                found[rank] = left
        return found

    def silent(self) -> list[Outcome]:
        """Ranks that still run and left no word; asked for once others have stopped for want of an answer."""
        told = self.outcomes()
        return [
            Outcome(member.rank, "silent", read_progress(self._folder / RANKS, member.rank), "it made no progress", 0.0)
            for member in self._members
            if member.rank is not None and member.code is None and member.rank not in told
        ]

    def terminate(self) -> None:
        """Ask every process to stop."""
        for member in self._members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.process.pid, signal.SIGTERM)

    def dump_stacks(self) -> None:
        """Let every rank that still runs write its stacks into its log."""
        for member in self._members:
            if member.code is None and member.rank is not None:
                os.kill(member.process.pid, signal.SIGUSR1)
        time.sleep(DUMP_SECONDS)

    def end(self) -> None:
        """End every process and its children at once; returns when all are gone."""
        for member in self._members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(member.process.pid, signal.SIGKILL)  # its session: also children that outlived it
        for member in self._members:
            member.process.wait()
        self._members.clear()


def _status(process: int) -> int | None:
    """How a child ended; None while it runs. It is not reaped yet, so that its number stays its own until the end."""
    result = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def rank_environment(rank: int, ranks: int, port: int, threads: int) -> dict[str, str]:
    """What torchrun would tell a rank, on one machine and over its loopback."""
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
    numbers = {key: str(value) for key, value in told.items()}
    alone = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **numbers, **alone, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
