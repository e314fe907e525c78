"""The work of the fair matrix's points: candidate plans of both sides, judged and played with every batching.

Every candidate is judged with every batching on the planning batches. The best equal replicas and the best plan of all,
for every set of options, are then played on the batches that really come; the same step plans are priced at other costs
of an adapter run, and in joint draws of the prices. A draw gives each (tp, pp) the same chance for all plans; its width
follows from what the plan asks of the prices, so that who extrapolates is less sure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from experiments.build import build_policy, build_world
from experiments.compare import plan_rows
from experiments.job import Job
from experiments.planning_case import standing
from experiments.study.fair_matrix import ADAPTER_COSTS, LOBRA, PACKED, Options, searched
from experiments.study.fair_prices import drawn_factors, step_seconds
from experiments.study.fair_search import Search, Tally, candidates, used_by
from experiments.study.referee_playing import counted
from experiments.walk import World
from lobra.batch import Batch
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan
from lobra.protocols import CostModel
from policies.batching.packed import Packed
from policies.deployment.expected import planning_batches
from policies.deployment.judge import Judge
from policies.policy import Policy, step_plan

COARSE = Packed(class_step=1024)  # packs for searching: a quarter of the classes, a quarter of the time


@dataclass(frozen=True, slots=True)
class Table:
    """What a point plays with."""

    world: World
    costs: Mapping[int, CostModel]  # by times the cost of an adapter run
    planning: tuple[Batch, ...]
    coming: tuple[Batch, ...]
    draws: int
    drawn: int  # steps whose prices are drawn
    seed: int


def matrix_part(job: Job, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Plans and what they cost with each batching: everything that the cells of this point need."""
    del folder
    table, seed = _table(job, options), job.config.seed
    sets, tally = searched(tuple(options["recompute"]), options["sharded"]), Tally()
    policies = {name: build_policy(config, seed) for name, config in job.policies.items()}
    for name in (PACKED,) if options["cp"] else (LOBRA, PACKED):
        if name in policies:
            batching = COARSE if name == PACKED else policies[name].batching
            search = Search(
                table.world, batching, policies[name].dispatch, table.planning, options["plays"], seed, options["cp"]
            )
            candidates(search, sets, tally)
    plans = list(tally.plans.values())
    if not plans:
        raise Infeasible("fair: no plan holds the longest sequence with any of these options; give more memory")
    return {
        "model": options["model"],
        "memory": options["memory"],
        "cp": options["cp"],
        "recompute": list(options["recompute"]),
        "sharded": options["sharded"] > 1,
        "planning_batches": len(table.planning),
        "batches": len(table.coming),
        "searches": {"made": tally.made, "identical": tally.identical, "infeasible": tally.infeasible},
        "plans": [_plan_row(plan) for plan in plans],
        "played": {name: _played(policy, plans, sets, table) for name, policy in policies.items()},
    }


def _table(job: Job, options: Mapping[str, Any]) -> Table:
    config, world = job.config, build_world(job.config)
    costs = {
        times: build_world(replace(config, cost=replace(config.cost, adapter_run=float(times)))).cost
        for times in ADAPTER_COSTS
        if times != 1
    }
    return Table(
        world,
        {**costs, 1: world.cost},
        planning_batches(world.workload, options["planning"], config.seed),
        tuple(world.workload.batches(config.steps)),
        options["draws"],
        options["drawn"],
        config.seed,
    )


def _plan_row(plan: DeploymentPlan) -> dict[str, Any]:
    uses = used_by(plan)
    kinds = {(replica.config, replica.budget) for replica in plan.replicas}
    return {
        "summary": plan.summary(),
        "rows": plan_rows(plan),
        "mixed": len(kinds) > 1,
        "recompute": uses.recompute,
        "fsdp": uses.fsdp,
    }


def _played(
    policy: Policy, plans: Sequence[DeploymentPlan], sets: Sequence[Options], table: Table
) -> list[dict[str, Any]]:
    """What the plans cost with this batching: on the planning batches all, on the coming ones the chosen."""
    judge = Judge(table.planning, policy.batching, policy.dispatch, table.world.cost)
    seconds = [judge.seconds(plan) for plan in plans]
    chosen = {_best(plans, seconds, allowed, mixed=mixed) for allowed in sets for mixed in (False, True)}
    rows = []
    for number, (plan, planned) in enumerate(zip(plans, seconds, strict=True)):
        if planned < inf:
            row: dict[str, Any] = {"plan": number, "planning_seconds": planned}
            rows.append(row | (_costs(policy, plan, table) if number in chosen else {}))
    return rows


def _best(plans: Sequence[DeploymentPlan], seconds: Sequence[float], allowed: Options, *, mixed: bool) -> int | None:
    """The plan that is fastest on the planning batches: of equal replicas, or of any."""
    open_to = [
        number
        for number, plan in enumerate(plans)
        if seconds[number] < inf
        and allowed.allows(used_by(plan))
        and (mixed or len({(replica.config, replica.budget) for replica in plan.replicas}) == 1)
    ]
    return min(open_to, key=lambda number: (seconds[number], number), default=None)


def _costs(policy: Policy, plan: DeploymentPlan, table: Table) -> dict[str, Any]:
    """GPU seconds of the coming batches by cost of an adapter run, and by how much draws of the prices change them."""
    cost = table.world.cost
    try:
        steps = [step_plan(batch, plan, policy.batching, policy.dispatch, cost) for batch in table.coming]
    except Infeasible:
        return {"failed": True}
    used = [microbatch for step in steps for work in step.work for microbatch in work]
    shards, gpus = max(1, *(len(microbatch.group) for microbatch in used)), plan.cluster.gpus
    tokens = sum(microbatch.shape.tokens for microbatch in used)
    first = steps[: table.drawn]
    return {
        "gpu_seconds": {
            str(times): (gpus * step_seconds(plan, steps, of)).tolist() for times, of in sorted(table.costs.items())
        },
        "draws": drawn_factors(plan, first, cost, seed=table.seed, draws=table.draws),
        "status": standing(plan, cost, shards)[0],
        "extrapolated": counted((plan, *steps), cost)["extrapolated"],
        "padding": 1 - sum(microbatch.shape.useful for microbatch in used) / tokens,
        "shards": shards,
    }
