"""Plays the points of a study, one after another or several at a time; finished ones are skipped.

A point lives in a folder of its own, whose file DONE, written last, names the configuration and the code that made it.
A killed start leaves points without DONE, which the next start plays anew.
"""

import hashlib
import multiprocessing
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.failures import exit_code_of, reason
from experiments.job import DONE, Job
from experiments.rundir import SCHEMA, digest, locked, pretty, read_json
from experiments.study.composing import composed
from experiments.study.point import Point
from lobra.errors import BadInput
from lobra.files import write_atomically

ROOMS = ("lobra", "workloads", "costmodel", "policies", "sim")  # whose code and data decide numbers
SOURCES = (".py", ".yaml", ".csv")
DRAWING = ("experiments.figures", "experiments.study.style")  # decide no number
LOG, RESULT, WALL = "log.txt", "summary.json", "wall.json"


@dataclass(frozen=True, slots=True)
class Task:
    """A point made ready: its job, its folder, and the name of its result."""

    point: Point
    job: Job
    folder: Path
    name: str  # of configuration, options and code


@dataclass(frozen=True, slots=True)
class Ended:
    """How a point ended: its result, or why there is none."""

    point: str
    result: dict[str, Any] | None
    wall: dict[str, Any]
    reason: str = ""
    exit_code: int = 0


def play_points(points: Sequence[Point], folder: Path, *, seed: int, jobs: int) -> dict[str, Ended]:
    """Play or skip every point; how each ended, in their order."""
    if jobs < 1:
        raise BadInput(f"jobs is {jobs}; at least 1 process must play")
    names = [point.name for point in points]
    if len(set(names)) != len(names):
        raise BadInput(f"points: {min(n for n in names if names.count(n) > 1)} stands there twice")
    ended: dict[str, Ended] = {}
    for done in _ended(points, folder, seed, jobs):
        ended[done.point] = done
        end = f"failed: {done.reason}" if done.reason else f"{done.wall.get('seconds', 0.0):.1f} s"
        sys.stderr.write(f"{len(ended)}/{len(points)} {done.point}: {end}\n")
        sys.stderr.flush()
    return {name: ended[name] for name in names}


def _ended(points: Sequence[Point], folder: Path, seed: int, jobs: int) -> Iterator[Ended]:
    """The points as they end."""
    tasks, sources = [], code_hash()
    for point in points:
        try:
            tasks.append(_task(point, folder / "points" / point.name, seed, sources))
        except Exception as error:  # noqa: BLE001 -- one point's configuration does not stop the others
            yield _failed(point.name, error)
    waiting = []
    for task in tasks:
        if (kept := finished(task)) is not None:
            yield kept
        else:
            waiting.append(task)
    if jobs == 1 or len(waiting) < 2:
        yield from map(play_point, waiting)
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(waiting)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_end_with,
        initargs=(os.getpid(),),
    )
    try:
        names = {pool.submit(play_point, task): task.point.name for task in waiting}
        for future in as_completed(names):
            broken = future.exception()  # a worker that was killed takes those with it that wait
            yield future.result() if broken is None else _failed(names[future], broken)
    finally:
        pool.shutdown(cancel_futures=True)


def _task(point: Point, folder: Path, seed: int, sources: str) -> Task:
    if "/" in point.name or point.name.startswith("."):
        raise BadInput(f"points: {point.name!r} cannot name a folder")
    job = composed(point, seed)
    work = f"{point.work.__module__}.{point.work.__qualname__}"
    evidence = hashlib.sha256(f"{sources} {_own_code(point.work.__module__)} {work}".encode()).hexdigest()
    return Task(point, job, folder, digest(job.name, {"options": dict(point.options)}, evidence))


def code_hash() -> str:
    """Hash of the code and data that decide numbers, so that no result outlives what made it."""
    total = hashlib.sha256()
    for room in ROOMS:
        root = Path(str(resources.files(room)))
        for path in sorted(path for path in root.rglob("*") if path.suffix in SOURCES):
            total.update(str(path.relative_to(root)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _own_code(name: str) -> str:
    """Hash of a work's module and of all modules under the roof whose functions or classes it uses, and so on."""
    found, waiting = dict[str, str](), [name]
    while waiting:
        module = import_module(waiting.pop())
        if module.__name__ not in found:
            found[module.__name__] = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
            waiting += [each for each in map(_origin, vars(module).values()) if each.startswith("experiments.")]
    return " ".join(f"{key}={found[key]}" for key in sorted(found) if key not in DRAWING)


def _origin(value: Any) -> str:
    return str(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None))


def finished(task: Task) -> Ended | None:
    """What a finished point gave; None where it is not finished, or its mark is not to be trusted."""
    if not (task.folder / DONE).is_file():
        return None
    try:
        if read_json(task.folder / DONE)["result_hash"] != task.name:
            return None
        result, wall = read_json(task.folder / RESULT)["result"], read_json(task.folder / WALL)["wall"]
    except (BadInput, KeyError, TypeError):
        return None
    return Ended(task.point.name, result, wall)


def play_point(task: Task) -> Ended:
    """Play one point in its folder; whatever goes wrong is in what is returned, and in its log."""
    try:
        with locked(task.folder, wait=True):  # whoever was left over by a killed start may still play it
            if (kept := finished(task)) is not None:
                return kept
            return _play(task)
    except Exception as error:  # noqa: BLE001 -- a study outlives whatever a point raises
        write_atomically(task.folder / LOG, traceback.format_exc())
        return _failed(task.point.name, error)


def _play(task: Task) -> Ended:
    for mark in (DONE, RESULT, WALL, LOG):
        (task.folder / mark).unlink(missing_ok=True)
    work = task.folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    started, cpu = time.perf_counter(), time.process_time()
    result = task.point.work(task.job, work, task.point.options)
    wall = dict(result.pop("wall", {}))
    wall |= {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    if not any(path.is_file() for path in work.rglob("*")):
        shutil.rmtree(work)
    write_atomically(task.folder / RESULT, pretty({"schema": SCHEMA, "point": task.point.name, "result": result}))
    write_atomically(task.folder / WALL, pretty({"schema": SCHEMA, "wall": wall}))
    write_atomically(task.folder / DONE, pretty({"schema": SCHEMA, "result_hash": task.name}))
    kept = finished(task)  # as it will be read, so that a first and a second start give the same bytes
    if kept is None:
        raise BadInput(f"{task.folder}: what was written cannot be read back")
    return kept


def _failed(point: str, error: BaseException) -> Ended:
    return Ended(point, None, {}, reason(error), exit_code_of(error))


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone; it would wait for work for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
