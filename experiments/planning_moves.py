"""Re-planning at the command line: reads the running plan, tells what to do and what moving takes."""

from typing import Any

from costmodel.moving import Move, Moving, move
from experiments.planning_case import Case
from lobra.plan import DeploymentPlan
from policies.replanning.carrying import check_running
from policies.replanning.decision import Decision, Option, Terms
from policies.replanning.replanner import Replanner

GIB = 2**30


def replan(case: Case, running: DeploymentPlan, terms: Terms, moving: Moving) -> Decision:
    """Stay or move; BadInput where the running plan is of another model or cluster."""
    world = case.world
    check_running(running, world.workload, world.model, world.cluster)
    replanner = Replanner(running, case.policy.deployment, case.judge(), moving, terms, case.longest)
    return replanner.decide(world.workload)


def decision_row(running: DeploymentPlan, decision: Decision) -> dict[str, Any]:
    """The decision as plain figures; all seconds of moving are derived from the links' bandwidth."""
    before, after = ({tenant.name for tenant in plan.tenants} for plan in (running, decision.chosen.plan))
    return {
        "running": running.summary(),
        "arrived": sorted(after - before),
        "left": sorted(before - after),
        "moves": decision.moves,
        "reason": decision.reason(),
        "horizon": decision.terms.horizon,
        "factor": decision.terms.factor,
        "stay": None if decision.stay is None else {"step_seconds": decision.stay.step_seconds},
        "impossible": decision.impossible,
        "alternative": _option(running, decision.alternative),
        "basis": "derived",
    }


def decision_lines(row: dict[str, Any]) -> list[str]:
    """The same for people: who came and went, what to do and why, what moving takes or would take."""
    change = [*(f"+ {name}" for name in row["arrived"]), *(f"- {name}" for name in row["left"])]
    other = row["alternative"]
    sizes = other["received_bytes"]
    moved = (
        f"{other['replicas_staying']} of {other['replicas']} replicas keep their places, {len(other['gpus_changed'])} "
        f"GPUs change theirs; a GPU receives up to {max(sizes) / GIB:.2f} GiB, all together {sum(sizes) / GIB:.2f} GiB "
        f"(frozen weights {other['weight_bytes'] / GIB:.2f}, adapters and optimiser {other['state_bytes'] / GIB:.2f}), "
        f"{other['crossing_bytes'] / GIB:.2f} of them from other nodes: {other['moving_seconds']:.2f} s (derived)"
    )
    return [
        f"running: {row['running']}; tenants {', '.join(change) if change else 'unchanged'}",
        row["reason"],
        f"{'moving' if row['moves'] else 'moving would take'}: {moved}",
    ]


def _option(running: DeploymentPlan, option: Option) -> dict[str, Any]:
    needed: Move = move(running, option.plan)
    return {
        "plan": option.plan.summary(),
        "step_seconds": option.step_seconds,
        "moving_seconds": option.moving_seconds,
        "replicas": len(option.plan.replicas),
        "replicas_staying": len(needed.staying),
        "gpus_changed": list(needed.changed),
        "received_bytes": needed.received.tolist(),
        "weight_bytes": float(needed.weight_bytes.sum()),
        "state_bytes": float(needed.state_bytes.sum()),
        "crossing_bytes": float(needed.crossing_bytes.sum()),
    }
