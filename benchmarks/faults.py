"""The whole matrix of faults against real ranks and real files; counts what was survived and prints it as a table.

    python benchmarks/faults.py [--quick] [--output docs/faults.md]

Killed, raising, hanging and frozen ranks at random steps and phases, wishes to stop in steps and in saves, killed
launchers, kills at 50 points of a save, 100 changed bytes and 20 truncations of a checkpoint. After every fault of a
job the same command is started again and must give, bit for bit, the adapters of an undisturbed run. Exit code 1 if
anything was lost, late or left behind. `--quick` does two of each kind.
"""

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the small jobs are those of the tests

import small_jobs
from executor.checkpoint import newest
from executor.description import Fault, FaultKind
from executor.failures import Preempted, RankFailure
from executor.launch import Torchrun
from lobra.files import write_atomically
from small_jobs import adapters, directives, execution, played, processes_of
from small_saves import damages, kills

STEPS = 6
EVERY = 2  # steps between checkpoints
AT_ONCE = 5.0  # seconds until a death or an exception must have ended the job
LATER = 3.0  # seconds after the deadline in which a hang must have ended it
PHASES = ("step", "forward", "backward", "synchronise", "report")
SAVING = ("checkpoint", "save after 0 bytes")


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of fault: how often tried, how often all was well, the slowest end."""

    fault: str
    tried: int
    right: int
    slowest: float | None
    meaning: str


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = list(matrix(Path(scratch), 2 if arguments.quick else 20, 10 if arguments.quick else 50))
    text = table(rows, quick=arguments.quick)
    print(text)
    if arguments.output is not None:
        write_atomically(arguments.output, text)
    return 0 if all(row.tried == row.right for row in rows) else 1


def matrix(scratch: Path, many: int, points: int) -> Iterator[Row]:
    generator = np.random.default_rng(20261130)
    expected = undisturbed(scratch / "undisturbed")
    few = max(2, many // 2)
    late = f"named within the deadline of {execution().deadline_seconds:.0f} s and {LATER:.0f} s more"
    jobs: tuple[tuple[FaultKind, str, int, tuple[str, ...], str], ...] = (
        ("kill", "SIGKILL of a rank", many, PHASES, "named within 5 s"),
        ("raise", "exception in a rank", many, PHASES, "named with its text within 5 s"),
        ("exit", "exit without a word", few, PHASES, "named within 5 s"),
        ("hang", "endless sleep of a rank", few, PHASES, late),
        ("freeze", "SIGSTOP of a rank", few, PHASES, late),
        ("terminate", "SIGTERM in a step", few, PHASES, "stopped within 5 s, no reported step lost"),
        ("terminate", "SIGTERM in a save", few, SAVING, "stopped within 5 s, no reported step lost"),
        ("kill", "SIGKILL in a save", few, SAVING, "named within 5 s, older generation kept"),
    )
    for kind, name, count, phases, meaning in jobs:
        results = [tried(scratch / "job", fault(kind, phases, generator), expected) for _ in range(count)]
        yield counted(name, results, f"{meaning}, nobody left, restart bit-equal")
    yield counted("SIGKILL of the launcher", [orphans(scratch / "job") for _ in range(few)], "no rank alive after 5 s")
    yield counted("SIGTERM of the launcher", [stopped(scratch / "job") for _ in range(few)], "exit code 5, all saved")
    yield counted(
        f"kill at {points} points of a save",
        timeless(kills(scratch / "kills", points)),
        "the newest valid checkpoint loads",
    )
    yield counted(
        "one byte of a checkpoint changed",
        timeless(damages(scratch / "changed", 2 * points, generator, cut=False)),
        "noticed",
    )
    yield counted(
        "a checkpoint's file cut off",
        timeless(damages(scratch / "cut", 2 * points // 5, generator, cut=True)),
        "noticed",
    )


def undisturbed(folder: Path) -> dict[str, str]:
    assert tuple(range(STEPS)) == played(folder, steps=STEPS)
    return adapters(folder)


def fault(kind: FaultKind, phases: tuple[str, ...], generator: np.random.Generator) -> Fault:
    """A random rank, step and phase; saves happen behind every second step, their bytes are written by rank 0."""
    phase = str(generator.choice(phases))
    rank = 0 if phase.startswith("save") else int(generator.integers(2))
    step = (
        EVERY * int(generator.integers(STEPS // EVERY)) + EVERY - 1
        if phase in SAVING
        else int(generator.integers(STEPS))
    )
    return Fault(kind, rank, step, phase)


def tried(folder: Path, given: Fault, expected: dict[str, str]) -> tuple[bool, float]:
    """Whether a job with this fault ended as it should, and in how many seconds after its last report."""
    shutil.rmtree(folder, ignore_errors=True)
    told, last, reports = "", time.monotonic(), 0
    try:
        for _ in Torchrun(folder, execution(given)).play(directives(STEPS)):
            last, reports = time.monotonic(), reports + 1
    except (RankFailure, Preempted) as error:
        told = str(error)
    seconds = time.monotonic() - last
    allowed = execution().deadline_seconds + LATER if given.kind in ("hang", "freeze") else AT_ONCE
    named = "stopped" in told if given.kind == "terminate" else f"rank {given.rank} " in told
    kept = newest(folder / "checkpoints")[0]
    saved = int(kept.name.removeprefix("step-")) if kept is not None else 0
    enough = saved == reports if given.kind == "terminate" else saved >= reports - EVERY
    right = named and enough and seconds < allowed and not processes_of(folder)
    right = right and played(folder, steps=STEPS) == tuple(range(STEPS)) and adapters(folder) == expected
    if not right:
        print(f"WRONG: {given}: {told!r} after {seconds:.2f} s, {reports} reports, {saved} saved", file=sys.stderr)
    return right, seconds


def running(folder: Path) -> "subprocess.Popen[str]":
    """A launcher of its own, in the middle of its steps."""
    shutil.rmtree(folder, ignore_errors=True)
    process = subprocess.Popen([sys.executable, small_jobs.__file__, str(folder)], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    process.stdout.readline()
    return process


def orphans(folder: Path) -> tuple[bool, float]:
    process, begun = running(folder), time.monotonic()
    process.kill()
    process.communicate()
    while processes_of(folder) and time.monotonic() - begun < 10:
        time.sleep(0.01)
    seconds = time.monotonic() - begun
    return seconds < AT_ONCE, seconds


def stopped(folder: Path) -> tuple[bool, float]:
    process, begun = running(folder), time.monotonic()
    process.send_signal(signal.SIGTERM)
    reports = 1 + len(process.communicate()[0].splitlines())
    kept = newest(folder / "checkpoints")[0]
    right = process.returncode == 5 and kept is not None and kept.name == f"step-{reports:08}"
    return right and not processes_of(folder), time.monotonic() - begun


def timeless(results: list[bool]) -> list[tuple[bool, float | None]]:
    return [(right, None) for right in results]


def counted(name: str, results: Sequence[tuple[bool, float | None]], meaning: str) -> Row:
    seconds = [each for _, each in results if each is not None]
    row = Row(name, len(results), sum(right for right, _ in results), max(seconds, default=None), meaning)
    print(f"{row.fault}: {row.right} of {row.tried}", file=sys.stderr)
    return row


def table(rows: list[Row], *, quick: bool) -> str:
    made = (
        "Made by `python benchmarks/faults.py --quick`, which tries few of each kind; `make faults` tries all and "
        if quick
        else "Made by `make faults` (`benchmarks/faults.py`), which "
    )
    lines = [
        "# Faults survived",
        "",
        f"{made}fails if any count is short. Two ranks over gloo train",
        f"two tenants for {STEPS} steps with a checkpoint every {EVERY}. Seconds run from the last report to the end.",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores.",
        "",
        "| fault | tried | as promised | slowest end, s | promise |",
        "|---|--:|--:|--:|---|",
    ]
    for row in rows:
        slowest = f"{row.slowest:.2f}" if row.slowest is not None else ""
        lines.append(f"| {row.fault} | {row.tried} | {row.right} | {slowest} | {row.meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
