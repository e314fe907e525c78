"""Finding and reading the traces of a run directory."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path

from lobra import stream
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.trace import StepReport


def group_folders(run: Path) -> list[Path]:
    """The folders 0, 1, ... of a run; BadInput where there is none, with the way out for a comparison."""
    if not run.is_dir():
        raise BadInput(f"run: {run} is no directory; give the directory of a finished run")
    found = [folder for folder in run.iterdir() if folder.name.isdigit() and (folder / "trace.jsonl").is_file()]
    if found:
        return sorted(found, key=lambda folder: int(folder.name))
    below = sorted(path.parent.parent.name for path in run.glob("*/0/trace.jsonl"))
    hint = (
        f"give one of its policies, such as run={run / below[0]}" if below else "give the directory of a finished run"
    )
    raise BadInput(f"run: {run} holds no trace of its own; {hint}")


def plan_of(group: Path) -> DeploymentPlan:
    """The first deployment of a group."""
    directive = next(stream.read(group / "directives.jsonl", complete=False), None)
    if not isinstance(directive, DeploymentPlan):
        raise BadInput(f"{group / 'directives.jsonl'}: it does not begin with a deployment plan")
    return directive


def joined(reports: Iterable[StepReport]) -> Iterator[StepReport]:
    """One report a step: neighbours of the same step, which are parts of it, become one."""
    for _, group in groupby(reports, key=lambda report: report.step):
        first, *rest = group
        parts = (first, *rest)
        yield (
            first
            if not rest
            else replace(
                parts[-1],
                seconds=sum(part.seconds for part in parts),
                busy_gpu_seconds=sum(part.busy_gpu_seconds for part in parts),
                tokens=sum(part.tokens for part in parts),
                useful_tokens=sum(part.useful_tokens for part in parts),
                spans=tuple(span for part in parts for span in part.spans),
                wait_seconds=sum(part.wait_seconds for part in parts),
                peak_gib=max((part.peak_gib for part in parts if part.peak_gib is not None), default=None),
            )
        )


def reports_of(group: Path, first: int = 0, steps: int | None = None) -> Iterator[StepReport]:
    """Reports of the steps from the first-th on, so many or all; a step's parts joined."""
    if first < 0 or (steps is not None and steps < 1):
        raise BadInput(f"first is {first} and steps is {steps}; first counts from 0 and steps is 1 or more")
    until = None if steps is None else first + steps
    yield from islice(joined(_checked(group / "trace.jsonl")), first, until)


def _checked(path: Path) -> Iterator[StepReport]:
    for report in stream.read(path):
        if not isinstance(report, StepReport):
            raise BadInput(f"{path}: it holds a {type(report).__name__}; a trace holds step reports")
        yield report
