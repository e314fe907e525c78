"""Arrivals read from a trace: a CSV with one job a line, and a report of what was taken and what was not, and why.

Columns, in any order, others are ignored: `submit_s` and `tenant` (who sent it) always; the job's size as `duration_s`
(with `gpus`, 1 where absent) or as one of `steps`, `tokens`, `epochs`; where wanted `job` (an id), `kind` (an offer's
name), `deadline_s` after submission, and `priority`. Times since 1970 are shifted to begin at 0, in micro- or
milliseconds they are converted too; the report says so. Nothing is clamped or left out silently.
"""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from lobra.errors import BadInput
from workloads.arrivals.nouns import Budget, BudgetUnit, check_names

UNITS: tuple[BudgetUnit, ...] = ("steps", "tokens", "epochs")
NUMBERS = ("submit_s", "duration_s", "gpus", *UNITS, "deadline_s", "priority")
EPOCH_SECONDS = 5e8  # a first submission beyond (15.8 years after the beginning) counts from 1970
LARGEST_FILE = 200_000_000  # bytes

Rejected = Literal["refuse", "skip"]


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One accepted line."""

    line: int
    owner: str
    at_seconds: float
    gpu_seconds: float | None  # its duration on its GPUs; None: the size is the budget
    budget: Budget | None
    job: str = ""
    kind: str = ""
    deadline_seconds: float | None = None
    priority: float = 0.0


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What came of every line."""

    lines: int  # below the header, empty ones left out
    accepted: int
    rejected: tuple[tuple[str, int, int], ...]  # reason, how many, the first line of it
    notes: tuple[str, ...] = ()  # what was converted or shifted

    def text(self) -> list[str]:
        """For people."""
        rows = [f"{self.accepted} of {self.lines} jobs accepted"]
        rows += [f"{count} rejected: {reason} (first in line {line})" for reason, count, line in self.rejected]
        return rows + list(self.notes)


class _Reject(Exception):
    """Why one line is not taken."""


def read_trace(
    path: Path, *, rejected: Rejected = "refuse", horizon_seconds: float | None = None
) -> tuple[tuple[TraceJob, ...], TraceReport]:
    """Jobs by time, equal times in the order of the file.

    BadInput where a line is rejected (unless `rejected` is skip), where none is left, where a job begins at or beyond
    the horizon, where an id stands twice, or where two owners' names differ by case alone.
    """
    if rejected not in ("refuse", "skip"):
        raise BadInput(f"trace: rejected is {rejected!r}; choose refuse or skip")
    owner = f"trace '{path.name}'"
    jobs, reasons, lines = list[TraceJob](), list[tuple[str, int]](), 0
    for line, row in _rows(path, owner):
        lines += 1
        try:
            jobs.append(_job(line, row))
        except _Reject as error:
            reasons.append((str(error), line))
    check_names(dict.fromkeys(job.owner for job in jobs), owner)
    if reasons and rejected == "refuse":
        reason, line = reasons[0]
        raise BadInput(f"{owner}, line {line}: {reason} ({len(reasons)} lines rejected); mend it or take rejected=skip")
    if not jobs:
        raise BadInput(f"{owner}: none of its {lines} lines can be used")
    check_names((job.job for job in jobs if job.job), f"{owner}: jobs")
    shifted, notes = _from_zero(jobs)
    shifted.sort(key=lambda job: job.at_seconds)
    if horizon_seconds is not None and shifted[-1].at_seconds >= horizon_seconds:
        raise BadInput(
            f"{owner}, line {shifted[-1].line}: submit_s is {shifted[-1].at_seconds:g} s after the beginning, beyond "
            f"the horizon of {horizon_seconds:g} s; check the unit, or give a longer horizon"
        )
    counts = Counter(reason for reason, _ in reasons)
    first = dict(reversed(reasons))
    told = tuple((reason, counts[reason], first[reason]) for reason in sorted(counts))
    return tuple(shifted), TraceReport(lines, len(jobs), told, notes)


def _rows(path: Path, owner: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(f"{owner}: it has more than {LARGEST_FILE} bytes; cut it")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"{owner}: it cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{owner}: not UTF-8 text (byte {error.start})") from None
    reader = csv.reader(io.StringIO(text))
    header = [name.strip() for name in next(reader, [])]
    missing = [name for name in ("submit_s", "tenant") if name not in header]
    sizes = ("duration_s", *UNITS)
    if missing or not set(sizes) & set(header):
        wanted = f"column {missing[0]} is missing" if missing else f"no column of {', '.join(sizes)}"
        raise BadInput(f"{owner}: {wanted}; its header is {', '.join(header)[:200]!r}")
    if len(set(header)) < len(header):
        raise BadInput(f"{owner}: a column stands twice in its header")
    for cells in reader:
        if any(cell.strip() for cell in cells):
            row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            yield reader.line_num, row if len(cells) == len(header) else {}


def _job(line: int, row: dict[str, str]) -> TraceJob:
    if not row:
        raise _Reject("it has another number of columns than the header")
    if not row["tenant"]:
        raise _Reject("tenant is empty")
    values = {name: value for name in NUMBERS if (value := _number(name, row.get(name, ""))) is not None}
    if "submit_s" not in values:
        raise _Reject("submit_s is empty")
    for name, value in values.items():
        if value < 0 and name != "priority":
            raise _Reject(f"{name} is negative")
    seconds, budget = _size(values)
    return TraceJob(
        line,
        row["tenant"],
        values["submit_s"],
        seconds,
        budget,
        row.get("job", ""),
        row.get("kind", ""),
        values.get("deadline_s"),
        values.get("priority", 0.0),
    )


def _number(name: str, cell: str) -> float | None:
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        raise _Reject(f"{name} is not a number") from None
    if not math.isfinite(value):
        raise _Reject(f"{name} is not finite")
    return value


def _size(values: dict[str, float]) -> tuple[float | None, Budget | None]:
    given = [unit for unit in UNITS if unit in values]
    if len(given) + ("duration_s" in values) != 1:
        raise _Reject("its size is not given by exactly one of duration_s, steps, tokens, epochs")
    for name in ("gpus", "deadline_s", "duration_s", *UNITS):
        if values.get(name) == 0:
            raise _Reject(f"{name} is 0")
    if given:
        return None, Budget(values[given[0]], given[0])
    return values["duration_s"] * values.get("gpus", 1.0), None


def _from_zero(jobs: list[TraceJob]) -> tuple[list[TraceJob], tuple[str, ...]]:
    """Times as they are, or since 1970 brought to seconds after the first submission."""
    first = min(job.at_seconds for job in jobs)
    if first < EPOCH_SECONDS:
        return jobs, ()
    scale, unit = 1.0, "seconds"
    for factor, name in ((1e6, "microseconds"), (1e3, "milliseconds")):
        if first / factor >= EPOCH_SECONDS:
            scale, unit = factor, name
            break
    note = f"submit_s was taken as {unit} since 1970 and shifted by {first:.0f} to begin at 0"
    return [replace(job, at_seconds=(job.at_seconds - first) / scale) for job in jobs], (note,)
