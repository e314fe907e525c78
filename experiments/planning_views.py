"""The planner's model error: what a plan's micro-batches cost as planners price them, and as the simulator plays them.

Planners must plan with something convex, so their view of a layer is coarser than the simulator's. Here both are asked
for every micro-batch of the planning batches, on the largest stage of the replica that serves it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.planning_case import Played
from lobra.plan import DeploymentPlan, Replica, Shape
from lobra.protocols import CostModel

SAME = 1e-9  # relative; a cost model with one view differs by rounding alone


def view_rows(plan: DeploymentPlan, played: Played, cost: CostModel) -> list[dict[str, Any]]:
    """Of each kind of replica with work: micro-batches, mean and largest relative difference, and that of the sums.

    Positive: planners overrate. No row where both views are one.
    """
    asked: dict[str, list[tuple[float, float]]] = {}
    known: dict[tuple[str, Shape], tuple[float, float]] = {}
    for replica, shape in _micro_batches(plan, played):
        name = str(replica.config)
        if (name, shape) not in known:
            known[name, shape] = _both(cost, replica, shape)
        asked.setdefault(name, []).append(known[name, shape])
    rows = [_row(name, np.array(pairs)) for name, pairs in sorted(asked.items())]
    return rows if any(row["largest"] for row in rows) else []


def view_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The same for people."""
    told = (
        f"{row['replicas']} {row['mean']:.1%} on average, {row['largest']:.1%} at most, {row['sum']:+.1%} in all "
        f"({row['micro_batches']} micro-batches)"
        for row in rows
    )
    return [f"planner's prices against the simulator's: {'; '.join(told)}"] if rows else []


def _micro_batches(plan: DeploymentPlan, played: Played) -> Iterator[tuple[Replica, Shape]]:
    for step in played.steps:
        for replica, work in zip(plan.replicas, step.work, strict=True):
            yield from ((replica, microbatch.shape) for microbatch in work)


def _both(cost: CostModel, replica: Replica, shape: Shape) -> tuple[float, float]:
    """Seconds of a micro-batch, forward plus backward: a planner's, and the simulator's largest stage."""
    rates = cost.rates(replica.config, np.array([shape.width]), shape.shards)
    pack = rates.pack
    if pack is None:
        planned = float(rates.fixed[0] + rates.row[0] * shape.rows)
    else:
        planned = pack.fixed + pack.run * shape.runs + pack.token * shape.tokens + pack.square * shape.squares
    stages = {0, replica.config.pp - 1}
    played = max(
        cost.stage_seconds(replica, stage, shape, "forward") + cost.stage_seconds(replica, stage, shape, "backward")
        for stage in stages
    )
    return max(rates.floor, planned), played


def _row(name: str, pairs: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    planned, played = pairs[:, 0], pairs[:, 1]
    apart = np.abs(planned / played - 1)
    largest = float(apart.max())
    return {
        "replicas": name,
        "micro_batches": len(pairs),
        "mean": float(apart.mean()),
        "largest": largest if largest > SAME else 0.0,
        "sum": float(planned.sum() / played.sum() - 1),
    }
