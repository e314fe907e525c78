"""The verb `plan`: a deployment, how good it is, what its replicas are for, and what else could be done."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from costmodel.moving import Moving
from costmodel.perturbed import Law, check_spread
from experiments import planning_baselines, planning_memory, planning_uses, schema
from experiments.build import build_policy, build_world
from experiments.compare import certificate_row, plan_rows
from experiments.failures import DONE
from experiments.job import Done, Job
from experiments.planning_case import Case, play, standing
from experiments.planning_certificate import certificate_line
from experiments.planning_moves import decision_lines, decision_row, replan
from experiments.planning_regret import regret_lines, regret_row
from experiments.planning_views import view_lines, view_rows
from experiments.progress import reporting
from experiments.rundir import SCHEMA, pretty
from experiments.running import running_plan
from experiments.tables import print_table
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.plan import DeploymentPlan
from lobra.stream import Writer
from policies.replanning.decision import Terms


def plan(job: Job, folder: Path) -> Done:
    """Deploy one policy: `GROUP/directives.jsonl` with the plan alone, `summary.json` with all that was said of it."""
    config = cast(schema.Plan, job.config)
    world, (name, wanted) = build_world(config), next(iter(job.policies.items()))
    policy = build_policy(wanted, config.seed)
    groups = policy.grouping.groups(world.workload)
    _check(config, len(groups), name)
    deployment = wanted.deployment
    rows = []
    for number, group in enumerate(groups):
        case = Case(
            replace(world, workload=group), policy, deployment.batches, config.seed, cast(Any, deployment.longest)
        )
        made, extra = _deployed(case, config)
        with Writer(folder / str(number) / "directives.jsonl") as writer:
            writer.append(made)
        rows.append(_told(case, made, config, extra, alone=len(groups) == 1))
    write_atomically(folder / "summary.json", pretty({"schema": SCHEMA, "policy": name, "groups": rows}))
    _say([f"wrote {folder / 'summary.json'}"])
    return Done(DONE, sum(row["gpu_seconds"] for row in rows), {})


def _check(config: schema.Plan, groups: int, policy: str) -> None:
    """Refuse wrong options, and those that need what this policy has not, before any work."""
    Terms(config.horizon, config.factor)
    if config.regret is not None:
        check_spread(config.regret, config.law)
    if config.draws < 1:
        raise BadInput(f"draws is {config.draws}; at least 1 perturbed cost model is needed")
    for key in ("running", "regret"):
        if getattr(config, key) is not None and groups > 1:
            raise BadInput(
                f"{key}: policy {policy} trains tenants one after another; give a policy that trains them together"
            )
    if config.regret is not None and config.policy.deployment.kind in ("given", "paper"):
        raise BadInput(
            "regret: this policy's plan is given, not planned; there is nothing that another cost model would change; "
            "use policy/deployment=heterogeneous or homogeneous"
        )


def _deployed(case: Case, config: schema.Plan) -> tuple[DeploymentPlan, dict[str, Any]]:
    """The plan; with a running one, the better of staying and moving."""
    world = case.world
    if config.running is None:
        return case.policy.deployment.plan(world.workload, world.model, world.cluster, world.cost), {}
    running = running_plan(config.running)
    fixed = config.backend.deploy_seconds if isinstance(config.backend, schema.Sim) else 0.0
    decision = replan(case, running, Terms(config.horizon, config.factor), Moving(fixed))
    return decision.chosen.plan, {"replanning": decision_row(running, decision)}


def _told(
    case: Case, made: DeploymentPlan, config: schema.Plan, extra: dict[str, Any], *, alone: bool
) -> dict[str, Any]:
    """Everything about one plan: printed, and as the row of the summary."""
    played = play(made, case.judge())
    status, notes = standing(made, case.world.cost, played.shards)
    if "replanning" in extra:
        _say(decision_lines(extra["replanning"]))
    row = {
        "tenants": [tenant.name for tenant in made.tenants],
        "summary": made.summary(),
        "plan": plan_rows(made),
        "idle_gpus": len(made.idle_gpus),
        "certificate": _certificate(made),
        "step_seconds": played.step_seconds,
        "gpu_seconds": played.step_seconds * made.cluster.gpus,
        "status": status,
        "notes": list(notes),
        "uses": planning_uses.use_rows(made, played),
        "views": view_rows(made, played, case.world.cost),
        **extra,
    }
    _say(_head(row, made, len(played.steps)))
    print_table(planning_uses.COLUMNS, planning_uses.use_cells(row["uses"]), sys.stdout)
    _say(view_lines(row["views"]))
    row["memory"] = _memory(case, made)
    if config.baselines and alone:
        row["baselines"] = _baselines(case, row)
    if config.regret is not None:
        row["regret"] = _regret(case, made, config)
    _say(f"note: {note}" for note in notes)
    return row


def _memory(case: Case, made: DeploymentPlan) -> list[dict[str, Any]]:
    accounts = planning_memory.memory_accounts(made, case.world.cost)
    if accounts:
        _say(["", "GiB of one GPU of the heaviest stage, at the most tokens that fit:"])
        print_table(planning_memory.COLUMNS, planning_memory.memory_cells(accounts), sys.stdout)
    return planning_memory.memory_rows(accounts)


def _certificate(made: DeploymentPlan) -> dict[str, Any] | None:
    """The certificate as figures, with the line that tells of it; None where nobody judged the plan."""
    if made.certificate is None:
        return None
    return {
        **(certificate_row(made) or {}),
        "seed": made.certificate.seed,
        "line": certificate_line(made.certificate),
    }


def _head(row: dict[str, Any], made: DeploymentPlan, batches: int) -> list[str]:
    """The plan, what a step of it takes, and its certificate."""
    idle = f", {row['idle_gpus']} of them idle" if row["idle_gpus"] else ""
    where = f"on {made.cluster.gpus} GPUs{idle} ({row['status']}; {batches} planning batches, played in closed form)"
    return [
        f"{', '.join(row['tenants'])}: {row['summary']}",
        f"expected: {row['step_seconds']:.3f} s and {row['gpu_seconds']:.2f} GPU seconds a step {where}",
        *([row["certificate"]["line"]] if row["certificate"] else []),
        "",
    ]


def _baselines(case: Case, row: dict[str, Any]) -> list[dict[str, Any]]:
    own = {key: row[key] for key in ("step_seconds", "gpu_seconds", "status")} | {"plan": row["summary"]}
    rows = planning_baselines.baseline_rows(case, own)
    _say([""])
    print_table(planning_baselines.COLUMNS, planning_baselines.baseline_cells(rows), sys.stdout)
    _say(planning_baselines.remarks(rows))
    return rows


def _regret(case: Case, made: DeploymentPlan, config: schema.Plan) -> dict[str, Any]:
    assert config.regret is not None
    with reporting(1) as reporter, reporter.part("regret", 2 * config.draws) as tick:
        row = regret_row(case, made, spread=config.regret, law=cast(Law, config.law), draws=config.draws, tick=tick)
    _say(["", *regret_lines(row)])
    return row


def _say(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))
