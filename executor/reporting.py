"""What rank 0 says of a step, from what all ranks tell it."""

import sys
from collections.abc import Sequence
from typing import Any

from executor.engine import StepResult
from lobra.plan import DeploymentPlan, StepPlan
from lobra.trace import Span, StepReport

NOT_FINITE = sys.float_info.max  # stands for a loss that was NaN or infinite: JSON has neither


def told_by_rank(result: StepResult, before: Sequence[Span], peak_bytes: int | None) -> dict[str, Any]:
    """This rank's part of the report."""
    return {"spans": [*before, *result.spans], "peak": peak_bytes}


def report_of(
    plan: DeploymentPlan,
    step: StepPlan,
    result: StepResult,
    told: Sequence[dict[str, Any]],
    *,
    begun: float,
    waited: float,
    ended: float,
) -> StepReport:
    """The step's report; begun and ended are seconds since the run began, waited of them for its plan."""
    spans = [[Span(*span) for span in each["spans"]] for each in told]
    busy = sum(span.end - span.start for each in spans for span in each if span.kind in ("forward", "backward"))
    shown = [span for rank in _speakers(plan) for span in spans[rank]]
    if waited > 0:
        shown += _waiting(plan, begun, waited, spans)
    shown.sort(key=lambda span: (span.start, span.replica, span.stage))
    tokens, useful = _tokens(step)
    peaks = [each["peak"] for each in told if each["peak"] is not None]
    return StepReport(
        step.step,
        ended - begun,
        plan.cluster.gpus,
        busy,
        tokens,
        useful,
        tuple(shown),
        waited,
        max(peaks) / 2**30 if peaks else None,
        tuple(loss if abs(loss) < NOT_FINITE else NOT_FINITE for loss in result.mean_losses),
    )


def _speakers(plan: DeploymentPlan) -> list[int]:
    """One rank a stage: all ranks of a stage do the same at the same time."""
    return [
        min(replica.gpus[stage * replica.config.tp : (stage + 1) * replica.config.tp])
        for replica in plan.replicas
        for stage in range(replica.config.pp)
    ]


def _waiting(plan: DeploymentPlan, begun: float, waited: float, spans: Sequence[Sequence[Span]]) -> list[Span]:
    """Planning that was not hidden, on every stage, behind a re-deployment if there was one."""
    deployed = max((span.end for each in spans for span in each if span.kind == "deploy"), default=begun)
    start = max(begun, deployed)
    return [
        Span(number, stage, -1, "wait", start, start + waited)
        for number, replica in enumerate(plan.replicas)
        for stage in range(replica.config.pp)
    ]


def _tokens(step: StepPlan) -> tuple[int, int]:
    """Tokens computed, padding included, and those that are none; a shared micro-batch counts once."""
    shapes = [
        microbatch.shape
        for replica, work in enumerate(step.work)
        for microbatch in work
        if not microbatch.group or microbatch.group[0] == replica
    ]
    return sum(shape.tokens for shape in shapes), sum(shape.useful for shape in shapes)
