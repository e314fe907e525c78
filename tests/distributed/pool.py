"""Eight gloo ranks that live as long as the test session and run one job after another.

A job is a function named by module and name, called on every rank as job(worker, *arguments). The pool waits on answers
and on the processes themselves: a rank that dies, raises or does not answer in time ends the pool with one sentence,
and the next job gets a new one.
"""

import importlib
import multiprocessing
import os
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

RANKS = 8
GRACE_SECONDS = 0.5  # a rank that fails first is the cause; others' complaints follow


class JobFailed(Exception):
    """A rank died, raised or did not answer."""


@dataclass
class Worker:
    """What a job sees of its rank."""

    rank: int
    groups: Any
    kept: dict[str, Any] = field(default_factory=dict)


def _serve(rank: int, store: str, pipe: Connection) -> None:
    import torch
    import torch.distributed as dist

    from executor.mesh import Groups

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS, timeout=_seconds(60)
    )
    worker = Worker(rank, Groups())
    pipe.send(("ready", None))
    while True:
        try:
            module, name, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send(("done", getattr(importlib.import_module(module), name)(worker, *arguments)))
        except Exception as error:  # noqa: BLE001  # whatever it is, the test must read it
            pipe.send(("raised", (type(error).__name__, str(error), traceback.format_exc())))


def _seconds(count: int) -> Any:
    from datetime import timedelta

    return timedelta(seconds=count)


class Pool:
    """Runs jobs on all ranks; starts its processes when they are first needed."""

    def __init__(self) -> None:
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def run(self, module: str, name: str, *arguments: Any, deadline: float = 60.0) -> list[Any]:
        """Every rank's answer, by rank."""
        if not self._processes:
            self._start()
        for pipe in self._pipes:
            pipe.send((module, name, arguments))
        return self._answers(deadline)

    def pids(self) -> list[int]:
        """Process ids, by rank."""
        return [process.pid for process in self._processes]

    def _start(self) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        os.environ["OMP_NUM_THREADS"] = "1"
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "executor.engine"])
        self._folder = tempfile.TemporaryDirectory()
        store = str(Path(self._folder.name) / "store")
        for rank in range(RANKS):
            mine, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, store, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(mine)
        self._answers(60.0)

    def _answers(self, deadline: float) -> list[Any]:
        answers: dict[int, Any] = {}
        failures: list[tuple[int, str, str]] = []
        end = time.monotonic() + deadline
        while len(answers) < RANKS:
            waiting = [rank for rank in range(RANKS) if rank not in answers]
            left = end - time.monotonic()
            sources = [self._pipes[rank] for rank in waiting] + [self._processes[rank].sentinel for rank in waiting]
            ready = wait(sources, max(0.0, left))
            if not ready:
                break
            for rank in waiting:
                if self._pipes[rank] in ready or self._processes[rank].sentinel in ready:
                    answers[rank] = self._answer(rank, failures)
            if failures and len(answers) < RANKS:
                end = min(end, time.monotonic() + GRACE_SECONDS)
        if failures or len(answers) < RANKS:
            silent = [rank for rank in range(RANKS) if rank not in answers]
            self.close()
            raise JobFailed(_cause(failures, silent, deadline))
        return [answers[rank] for rank in range(RANKS)]

    def _answer(self, rank: int, failures: list[tuple[int, str, str]]) -> Any:
        try:
            kind, body = self._pipes[rank].recv()
        except (EOFError, ConnectionError):
            self._processes[rank].join(1)
            failures.append((rank, "died", f"rank {rank} died, exit code {self._processes[rank].exitcode}"))
            return None
        if kind == "raised":
            failures.append((rank, body[0], f"rank {rank} raised {body[0]}: {body[1]}\n{body[2]}"))
        return body

    def close(self) -> None:
        """End all ranks."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.kill()
            process.join()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()


def _cause(failures: list[tuple[int, str, str]], silent: list[int], deadline: float) -> str:
    """The first failure that is no consequence of another rank's."""
    own = [text for _, kind, text in failures if kind not in ("RuntimeError", "DistBackendError", "DistNetworkError")]
    if own or failures:
        return own[0] if own else failures[0][2]
    return f"ranks {silent} gave no answer within {deadline} s"


@cache
def shared_pool() -> Pool:
    """The one pool of this process; its ranks are daemons and end with it."""
    return Pool()
