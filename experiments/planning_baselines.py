"""The best homogeneous plans beside a plan: plain, with recomputation, with sharded weights, with context parallelism.

All are tuned alike: every kind the cost model prices, three budgets a pipeline, the plan's own batching and dispatch,
the same planning batches and the same judge. A baseline that may recompute takes the best number of layers (by quarters
of a stage), one that may shard takes the best number of replicas that share their frozen weights. Where replicas share
micro-batches the dispatch has to be another one, which balances groups of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments.planning_case import Case, play, standing
from lobra.errors import BadInput, Infeasible
from lobra.protocols import DispatchPolicy
from policies.deployment.homogeneous import Homogeneous
from policies.dispatch.balanced import Balanced
from policies.dispatch.shared import SharedGroups

COLUMNS = ("planned on the same batches", "step s", "GPU s/step", "ratio", "basis", "plan")
THIS = "this plan"
BUDGETS = 3
SHARDS = 8  # replicas that share their frozen weights, at most: a node of the catalogue


def baseline_rows(case: Case, own: dict[str, Any]) -> list[dict[str, Any]]:
    """The plan itself (`own`), then every baseline; one that cannot be planned carries the reason."""
    plain, shared = dispatches(case.policy.dispatch, case.seed)
    best = Homogeneous(
        case.policy.batching, plain, budgets=BUDGETS, batches=case.batches, seed=case.seed, longest=case.longest
    )
    variants = {
        "homogeneous": best,
        "homogeneous, may recompute": replace(best, recompute="some"),
        "homogeneous, may shard weights": replace(best, fsdp=SHARDS),
        "homogeneous, may do both": replace(best, recompute="some", fsdp=SHARDS),
        "homogeneous, context parallel": replace(best, dispatch=shared, groups=None),
    }
    rows = [{"name": THIS, **own, "ratio": 1.0}]
    for name, variant in variants.items():
        try:
            rows.append({"name": name, **_figures(case, variant, own)})
        except (BadInput, Infeasible) as error:
            rows.append({"name": name, "failed": str(error)})
    return rows


def baseline_cells(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The same for people."""
    return [
        (row["name"], "-", "-", "-", "-", f"none: {row['failed']}")
        if "failed" in row
        else (
            row["name"],
            f"{row['step_seconds']:.3f}",
            f"{row['gpu_seconds']:.2f}",
            f"{row['ratio']:.3f}",
            row["status"],
            row["plan"],
        )
        for row in rows
    ]


def remarks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the ratio is, and which baselines are better than the plan."""
    lines = ["ratio: GPU seconds of a step over those of this plan; above 1 this plan is the better one"]
    better = sorted((row["ratio"], row["name"]) for row in rows[1:] if "failed" not in row and row["ratio"] < 1)
    if better:
        ratio, name = better[0]
        lines.append(f"the best plan here is '{name}', which takes {100 * (1 - ratio):.1f} % less than this plan")
    return lines


def dispatches(dispatch: DispatchPolicy, seed: int) -> tuple[DispatchPolicy, SharedGroups]:
    """A dispatch for replicas that work alone, and one for groups that share, as close to this one as there is."""
    if isinstance(dispatch, SharedGroups):
        return dispatch.balanced, dispatch
    return dispatch, SharedGroups(None, dispatch if isinstance(dispatch, Balanced) else Balanced(seed=seed))


def _figures(case: Case, variant: Homogeneous, own: dict[str, Any]) -> dict[str, Any]:
    world = case.world
    plan = variant.plan(world.workload, world.model, world.cluster, world.cost)
    played = play(plan, replace(case.judge(), dispatch=variant.dispatch))
    status, _ = standing(plan, world.cost, played.shards)
    gpu_seconds = played.step_seconds * world.cluster.gpus
    return {
        "step_seconds": played.step_seconds,
        "gpu_seconds": gpu_seconds,
        "ratio": gpu_seconds / own["gpu_seconds"],
        "status": status,
        "plan": plan.summary() + (f", {played.shards} together" if played.shards > 1 else ""),
    }
