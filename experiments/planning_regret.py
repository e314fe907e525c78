"""Robustness at the command line: the plan's regret under perturbed cost models."""

from collections.abc import Callable
from typing import Any

import numpy as np

from costmodel.perturbed import Law, perturbed
from experiments.planning_case import Case
from lobra.plan import DeploymentPlan
from policies.deployment.regret import regret_of

SHOWN = 3  # rivals


def regret_row(
    case: Case, plan: DeploymentPlan, *, spread: float, law: Law, draws: int, tick: Callable[[], None]
) -> dict[str, Any]:
    """The regret of the plan over so many draws, as plain figures."""
    world = case.world
    costs = [perturbed(world.cost, spread, law=law, seed=case.seed, draw=draw) for draw in range(draws)]
    found = regret_of(plan, world.workload, case.policy.deployment, case.judge(), costs, tick=tick)
    return {
        "spread": spread,
        "law": law,
        "draws": draws,
        "seed": case.seed,
        "plans": found.plans,
        "best_share": found.best_share,
        "mean": float(found.relative.mean()),
        "percentile_95": float(np.quantile(found.relative, 0.95)),
        "largest": float(found.relative.max()),
        "rivals": [{"plan": name, "draws": count} for name, count in found.rivals()],
        "of_each_draw": found.relative.tolist(),
    }


def regret_lines(row: dict[str, Any]) -> list[str]:
    """The same for people."""
    how = "within +-{:g} % (uniform)" if row["law"] == "uniform" else "by a log-normal factor of {:g} %"
    changed = f"every coefficient changed {how.format(100 * row['spread'])}, {row['draws']} draws"
    loss = ", ".join(
        f"{100 * row[key]:.2f} % {name}"
        for key, name in (("mean", "on average"), ("percentile_95", "at the 95th percentile"), ("largest", "at most"))
    )
    lines = [
        f"regret: {changed}: this plan is the best in {round(row['best_share'] * row['draws'])}, and loses {loss}",
        f"against the best of {row['plans']} plans: this one and the planner's for each draw, all judged in all draws",
    ]
    lines += [f"best in {rival['draws']} draws: {rival['plan']}" for rival in row["rivals"][:SHOWN]]
    return lines
