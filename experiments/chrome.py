"""Traces in the format of chrome://tracing and ui.perfetto.dev: a process a replica, a thread a stage.

Times are microseconds, whole nanoseconds exactly. The viewers ask that slices of one track be nested or disjoint, so
what overlaps the work of a stage, its transfers and whatever else runs beside it, has tracks of its own.
"""

import json
from collections.abc import Iterable
from typing import Any

from lobra.plan import DeploymentPlan
from lobra.trace import Span, StepReport

WORK = ("forward", "backward", "wait", "synchronise", "deploy")  # what a stage does itself, one after another
BESIDE = 1000  # tracks beside stage s are numbered from BESIDE * (s + 1)


def chrome_events(plan: DeploymentPlan, reports: Iterable[StepReport]) -> list[dict[str, Any]]:
    """Metadata of all replicas and a complete event a span, ordered by track and time; zero-length spans are kept."""
    events = [_name("process_name", replica, 0, _label(plan, replica)) for replica in range(len(plan.replicas))]
    ends: dict[tuple[int, int], int] = {}
    slices = []
    for report in reports:
        for span in sorted(report.spans, key=lambda span: (span.start, span.end)):
            start, end = _nanoseconds(span.start), _nanoseconds(span.end)
            track = _track(span, start, ends)
            ends[span.replica, track] = max(end, ends.get((span.replica, track), end))
            slices.append((span.replica, track, _slice(span, report.step, track, start, end)))
    for replica, track in sorted(ends):
        name = f"stage {track}" if track < BESIDE else f"beside stage {track // BESIDE - 1}"
        events.append(_name("thread_name", replica, track, name))
    slices.sort(key=lambda entry: entry[:2])
    return events + [event for _, _, event in slices]


def chrome_json(plan: DeploymentPlan, reports: Iterable[StepReport]) -> str:
    """The whole file; strict JSON."""
    body = {"displayTimeUnit": "ms", "traceEvents": chrome_events(plan, reports)}
    return json.dumps(body, separators=(",", ":"), allow_nan=False) + "\n"


def _track(span: Span, start: int, ends: dict[tuple[int, int], int]) -> int:
    """The stage's own track for its work, else the first track beside it that is free by then."""
    if span.kind in WORK and ends.get((span.replica, span.stage), start) <= start:
        return span.stage
    track = BESIDE * (span.stage + 1)
    while ends.get((span.replica, track), start) > start:
        track += 1
    return track


def _slice(span: Span, step: int, track: int, start: int, end: int) -> dict[str, Any]:
    name = span.kind if span.microbatch < 0 else f"{span.kind} {span.microbatch}"
    return {
        "ph": "X",
        "name": name,
        "cat": span.kind,
        "pid": span.replica,
        "tid": track,
        "ts": start / 1000,
        "dur": (end - start) / 1000,
        "args": {"step": step, "microbatch": span.microbatch, "stage": span.stage},
    }


def _name(kind: str, replica: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": replica, "tid": track, "args": {"name": name}}


def _label(plan: DeploymentPlan, replica: int) -> str:
    placed = plan.replicas[replica]
    return f"replica {replica} {placed.config} GPUs {placed.gpus[0]}-{placed.gpus[-1]}"


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
