"""Playing the policies of a comparison: here, or several at a time in processes of their own.

What is played does not depend on how many play at once; only the wall-clock figures do.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from executor.failures import RankFailure
from experiments.build import build_backend, build_policy, build_world
from experiments.compare import Failure, Outcome, Result, result_of
from experiments.failures import exit_code_of, reason
from experiments.job import Job
from experiments.progress import Reporter
from experiments.training import executed, is_real
from experiments.walk import Tick, World, walk
from lobra.errors import BadInput, Infeasible

POLICIES_A_WORKER = 3  # below that, starting a process costs more than it saves


def play_all(job: Job, world: World, folder: Path, reporter: Reporter) -> dict[str, Outcome]:
    """Every policy into its own folder; one that cannot be played is a Failure and does not stop the others."""
    workers = workers_of(job)
    outcomes: dict[str, Outcome] = {}
    if workers == 1:
        for name in job.policies:
            with reporter.part(name, job.config.steps) as tick:
                outcomes[name] = play(job, name, folder, world, tick)
        return outcomes
    with _pool(workers) as pool, reporter.together() as finished:
        names = {
            pool.submit(play_alone, job, name, folder): name for name in reversed(job.policies)
        }  # costly ones first
        for future in as_completed(names):
            outcomes[names[future]], seconds = future.result()
            if isinstance(outcomes[names[future]], Result):
                finished(names[future], seconds)
    return {name: outcomes[name] for name in job.policies}


def workers_of(job: Job) -> int:
    """As many as asked for; by default as there are cores, and never more than pay."""
    asked = job.config.workers
    if asked is not None and asked < 1:
        raise BadInput(f"workers is {asked}; at least 1 process must play")
    if is_real(job.config):
        return 1  # real ranks share the devices with nobody
    useful = max(1, len(job.policies) // POLICIES_A_WORKER)
    return min(len(os.sched_getaffinity(0)), useful) if asked is None else min(asked, len(job.policies))


def play_alone(job: Job, name: str, folder: Path) -> tuple[Outcome, float]:
    """Play one policy in a process that knows nothing yet; with the seconds that took."""
    started = time.perf_counter()
    outcome = play(job, name, folder, build_world(job.config), lambda: None)
    return outcome, time.perf_counter() - started


def play(job: Job, name: str, folder: Path, world: World, tick: Tick) -> Outcome:
    """Play one policy."""
    backend = build_backend(job.config, world)
    try:
        policy = build_policy(job.policies[name], job.config.seed)
        groups = walk(policy, world, backend, steps=job.config.steps, folder=folder / name, tick=tick)
        result = result_of(groups, world.cost)
        return executed(result) if is_real(job.config) else result
    except (BadInput, Infeasible, RankFailure) as error:
        return Failure(reason(error), exit_code_of(error))


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes; an interruption does not wait for work that has not begun."""
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
