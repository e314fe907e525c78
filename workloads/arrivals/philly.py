"""Arrivals read from the Philly trace as it was published: jobs with attempts, in local time without a zone.

`cluster_job_log` (Jeon et al., ATC 2019) is a JSON list of jobs with `submitted_time`, `vc`, `jobid` and `attempts`,
each with `start_time`, `end_time` and the GPUs of its machines. A job's size is the sum of its attempts; the gaps
between them are nobody's. A job without an attempt, or with one that has not ended, has no size and is rejected. Where
the clock was set back a time may run backwards: such a job is rejected with the seconds, never waited for negatively.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lobra.codec import parse
from lobra.errors import BadInput
from workloads.arrivals.nouns import check_names
from workloads.arrivals.trace import LARGEST_FILE, TraceJob, TraceReport

FORM = "%Y-%m-%d %H:%M:%S"
NOTE = "times are local and without a zone; they were shifted to begin at 0 with the first submission"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a job did; seconds."""

    submitted: datetime
    wait_seconds: float  # until its first attempt
    run_seconds: float  # of all attempts, gaps left out
    gpu_seconds: float


class _Reject(Exception):
    """Why a job is not taken."""


def read_philly(path: Path, most: int | None = None) -> tuple[tuple[TraceJob, ...], TraceReport]:
    """The first so many jobs of the log by time, and what became of every one; BadInput where none is left."""
    owner = f"trace '{path.name}'"
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(f"{owner}: it has more than {LARGEST_FILE} bytes; cut it")
        records = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{owner}: it cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{owner}: not UTF-8 text (byte {error.start})") from None
    if not isinstance(records, list):
        raise BadInput(f"{owner}: expected a list of jobs, as in cluster_job_log")
    return taken(records[:most], owner)


def taken(records: Sequence[Any], owner: str) -> tuple[tuple[TraceJob, ...], TraceReport]:
    """Jobs of these records; what is rejected is counted by reason, with the place of the first."""
    found, reasons = list[tuple[int, str, str, Ran]](), list[tuple[str, int]]()
    for place, record in enumerate(records, 1):
        try:
            ran = ran_of(record)
            found.append((place, str(record.get("vc") or record["jobid"]), str(record["jobid"]), ran))
        except _Reject as error:
            reasons.append((str(error), place))
    if not found:
        raise BadInput(
            f"{owner}: none of its {len(records)} jobs can be used ({reasons[0][0] if reasons else 'empty'})"
        )
    check_names((job for _, _, job, _ in found), f"{owner}: jobs")
    first = min(ran.submitted for *_, ran in found)
    jobs = [
        TraceJob(place, vc, (ran.submitted - first).total_seconds(), ran.gpu_seconds, None, job)
        for place, vc, job, ran in found
    ]
    counts, where = Counter(reason for reason, _ in reasons), dict(reversed(reasons))
    told = tuple((reason, counts[reason], where[reason]) for reason in sorted(counts))
    report = TraceReport(len(records), len(jobs), told, (NOTE,))
    return tuple(sorted(jobs, key=lambda job: job.at_seconds)), report


def ran_of(record: Any) -> Ran:
    """Wait and sizes of one job of the log."""
    if not isinstance(record, dict) or not record.get("jobid"):
        raise _Reject("it has no jobid")
    submitted = _time(record.get("submitted_time"), "submitted_time")
    attempts = record.get("attempts") or []
    if not attempts:
        raise _Reject("it has no attempt: it never ran")
    seconds = gpu_seconds = 0.0
    starts = []
    for attempt in attempts:
        start, took = _took(attempt)
        starts.append(start)
        seconds += took
        gpu_seconds += took * sum(len(machine["gpus"]) for machine in attempt.get("detail") or [])
    wait = (min(starts) - submitted).total_seconds()
    if wait < 0:
        raise _Reject(f"it starts before it is submitted ({wait:.0f} s): a clock was set back, or it is an error")
    if not gpu_seconds > 0:
        raise _Reject("it used no GPU")
    return Ran(submitted, wait, seconds, gpu_seconds)


def _took(attempt: Mapping[str, Any]) -> tuple[datetime, float]:
    if not attempt.get("start_time") or not attempt.get("end_time"):
        raise _Reject("an attempt has no start or no end: it is still running")
    start, end = _time(attempt["start_time"], "start_time"), _time(attempt["end_time"], "end_time")
    took = (end - start).total_seconds()
    if took < 0:
        raise _Reject(f"an attempt ends before it begins ({took:.0f} s): a clock was set back, or it is an error")
    return start, took


def _time(value: Any, name: str) -> datetime:
    if not value or value == "None":
        raise _Reject(f"{name} is missing")
    try:
        return datetime.strptime(str(value), FORM)  # noqa: DTZ007  # the trace has no zone; differences alone are used
    except ValueError:
        raise _Reject(f"{name} is not a time of the form 2017-10-07 01:11:39") from None
