"""What policies cost side by side: figures of each from its reports, paired by batch against a baseline."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.statistics import Interval, mean_interval, reduction, reduction_interval
from experiments.walk import GroupResult
from lobra.batch import Array
from lobra.plan import DeploymentPlan
from lobra.protocols import CostModel

SCHEMA = 1
BASELINE = "task_fused"
STATUSES = ("measured", "derived", "roofline")  # from firm to weak; a result is as weak as its weakest part


@dataclass(frozen=True, slots=True)
class Result:
    """A policy that was played; steps of groups that run one after another are summed batch by batch."""

    groups: tuple[GroupResult, ...]
    step_seconds: Array  # float64 [steps]
    gpu_seconds: Array  # float64 [steps]
    status: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A policy that could not be played, and why."""

    reason: str
    exit_code: int


Outcome = Result | Failure


def result_of(groups: tuple[GroupResult, ...], cost: CostModel) -> Result:
    """The figures of one policy, and what they rest on."""
    status, notes = _standing(groups, cost)
    return Result(
        groups,
        np.sum([[report.seconds for report in group.reports] for group in groups], axis=0),
        np.sum([[report.gpu_seconds for report in group.reports] for group in groups], axis=0),
        status,
        notes,
    )


def summarise(outcomes: dict[str, Outcome], seed: int) -> dict[str, Any]:
    """The body of `summary.json`: plain figures a policy, the baseline named."""
    played = [name for name, outcome in outcomes.items() if isinstance(outcome, Result)]
    baseline = BASELINE if BASELINE in outcomes else next(iter(outcomes), BASELINE)
    against = outcomes[baseline] if baseline in played else None
    return {
        "schema": SCHEMA,
        "baseline": baseline,
        "policies": {
            name: _figures(outcome, against if isinstance(against, Result) else None, seed)
            if isinstance(outcome, Result)
            else {"failed": outcome.reason, "exit_code": outcome.exit_code}
            for name, outcome in outcomes.items()
        },
    }


def _figures(result: Result, baseline: Result | None, seed: int) -> dict[str, Any]:
    reports = [report for group in result.groups for report in group.reports]
    tokens, useful = sum(r.tokens for r in reports), sum(r.useful_tokens for r in reports)
    billed, busy = float(result.gpu_seconds.sum()), sum(r.busy_gpu_seconds for r in reports)
    dispatch = np.sum([group.dispatch_seconds for group in result.groups], axis=0)
    paired = baseline is not None and len(baseline.gpu_seconds) == len(result.gpu_seconds)
    return {
        "gpu_seconds": float(result.gpu_seconds.mean()),
        "interval": _pair(mean_interval(result.gpu_seconds, seed)),
        "step_seconds": float(result.step_seconds.mean()),
        "reduction": reduction(result.gpu_seconds, baseline.gpu_seconds) if baseline and paired else None,
        "reduction_interval": _pair(reduction_interval(result.gpu_seconds, baseline.gpu_seconds, seed))
        if baseline and paired
        else None,
        "padding": 1 - useful / tokens if tokens else 0.0,
        "idle": 1 - busy / billed if billed > 0 else 0.0,
        "plans": [plan_rows(group.plan) for group in result.groups],
        "plan_summaries": [group.plan.summary() for group in result.groups],
        "certificates": [certificate_row(group.plan) for group in result.groups],
        "planning_seconds": sum(group.planning_seconds for group in result.groups),
        "dispatch_seconds": float(np.median(dispatch)) if len(dispatch) else 0.0,
        "wait_seconds": sum(report.wait_seconds for report in reports) / max(1, len(result.gpu_seconds)),
        "status": result.status,
        "notes": list(result.notes),
        "truncated": _totals(group.truncated for group in result.groups),
        "dropped": _totals(group.dropped for group in result.groups),
        "gpu_seconds_per_step": result.gpu_seconds.tolist(),
    }


def plan_rows(plan: DeploymentPlan) -> list[dict[str, int]]:
    """The replicas of a plan, equal ones counted."""
    counts = Counter((replica.config, replica.budget) for replica in plan.replicas)
    return [
        {"tp": config.tp, "pp": config.pp, "recompute": config.recompute, "budget": budget, "count": count}
        | ({"fsdp": config.fsdp} if config.fsdp > 1 else {})
        for (config, budget), count in sorted(counts.items())
    ]


def certificate_row(plan: DeploymentPlan) -> dict[str, Any] | None:
    """How good a plan is; None where nobody said."""
    certificate = plan.certificate
    if certificate is None:
        return None
    finite = np.isfinite(certificate.bound_seconds) and certificate.bound_seconds > 0
    return {
        "expected_seconds": certificate.expected_seconds,
        "bound_seconds": certificate.bound_seconds if finite else None,
        "gap": certificate.gap if finite else None,
        "with_bubbles_seconds": certificate.with_bubbles_seconds,
        "bubble_gap": certificate.bubble_gap,
        "bound": certificate.bound,
        "kinds": certificate.kinds,
        "undominated": certificate.undominated,
        "solver": certificate.solver,
        "status": certificate.status,
        "notice": certificate.notice,
    }


def _standing(groups: Sequence[GroupResult], cost: CostModel) -> tuple[str, tuple[str, ...]]:
    """The weakest status of the configurations in use, and every note once."""
    weakest, notes = STATUSES[0], dict[str, None]()
    for group in groups:
        plan = group.plan
        for config in sorted({replica.config for replica in plan.replicas}):
            provenance = cost.provenance(config, plan.tenants, group.shards)
            weakest = _weaker(weakest, provenance.status)
            notes.update(dict.fromkeys(provenance.notes))
        if plan.idle_gpus:
            notes[f"{len(plan.idle_gpus)} GPUs idle in plan {plan.summary()}, billed all the same"] = None
        if plan.certificate is not None and plan.certificate.status in ("time_limit", "feasible", "limit"):
            notes[f"plan {plan.summary()} is the best within its limit, not proven"] = None
    return weakest, tuple(notes)


def _weaker(one: str, other: str) -> str:
    return max(one, other, key=lambda status: STATUSES.index(status) if status in STATUSES else len(STATUSES))


def _totals(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return {name: count for name, count in total.items() if count}


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)
