"""The verbs that plan and play: `plan`, `run` and `compare`."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments import schema
from experiments.build import build_backend, build_policy, build_world
from experiments.compare import Failure, Outcome, Result, certificate_row, plan_rows, result_of, summarise
from experiments.export import chrome_trace
from experiments.failures import DONE, INFEASIBLE, PARTIAL
from experiments.figures import compare_figure, save
from experiments.job import Done, Job
from experiments.playing import play_all
from experiments.progress import reporting
from experiments.rundir import SCHEMA, pretty
from experiments.tables import print_comparison
from experiments.training import executed, tell_training
from experiments.walk import World, walk
from lobra.errors import BadInput, Infeasible
from lobra.files import write_atomically
from lobra.stream import Writer

TRACED = "lobra"  # the policy whose first steps are exported
TRACED_STEPS = 3


def plan(job: Job, folder: Path) -> Done:
    """Deploy one policy: `GROUP/directives.jsonl` with the plan alone, and how good it is."""
    world, (name, config) = build_world(job.config), next(iter(job.policies.items()))
    policy = build_policy(config, job.config.seed)
    groups = policy.grouping.groups(world.workload)
    plans = [policy.deployment.plan(group, world.model, world.cluster, world.cost) for group in groups]
    rows = []
    for number, (group, made) in enumerate(zip(groups, plans, strict=True)):
        with Writer(folder / str(number) / "directives.jsonl") as writer:
            writer.append(made)
        certificate = certificate_row(made)
        names = [tenant.name for tenant in group.tenants]
        rows.append(
            {
                "tenants": names,
                "summary": made.summary(),
                "plan": plan_rows(made),
                "idle_gpus": len(made.idle_gpus),
                "certificate": certificate,
            }
        )
        sys.stdout.write(f"{', '.join(names)}: {made.summary()}\n")
        if certificate is not None:
            sys.stdout.write("".join(f"  {key}: {value}\n" for key, value in certificate.items()))
    return _finish(folder, {"schema": SCHEMA, "policy": name, "groups": rows}, [], _expected(rows, world))


def run(job: Job, folder: Path) -> Done:
    """Play one policy on one backend: directives, trace and timings of every group."""
    world = build_world(job.config)
    backend = build_backend(job.config, world)
    (name, config), steps = next(iter(job.policies.items())), job.config.steps
    with reporting(1) as reporter, reporter.part(name, steps) as tick:
        policy = build_policy(config, job.config.seed)
        groups = walk(policy, world, backend, steps=steps, folder=folder, tick=tick)
    outcome = result_of(groups, world.cost)
    if real := not isinstance(job.config.backend, schema.Sim):
        outcome = executed(outcome)
    summary = summarise({name: outcome}, job.config.seed)
    print_comparison(summary)
    gone = tell_training(summary, groups, folder) if real else []
    streams = [folder / str(number) / "trace.jsonl" for number in range(len(groups))]
    done = _finish(folder, summary, streams, float(outcome.gpu_seconds.mean()), PARTIAL if gone else DONE)
    return replace(done, reason=f"quarantined: {', '.join(gone)}") if gone else done


def compare(job: Job, folder: Path) -> Done:
    """Play many policies on the same batches; one that cannot be played is told of and does not stop the others."""
    world = build_world(job.config)
    with reporting(len(job.policies)) as reporter:
        outcomes = play_all(job, world, folder, reporter)
    played = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Result)}
    if not played:
        raise _all_failed(outcomes)
    summary = summarise(outcomes, job.config.seed)
    print_comparison(summary)
    files = [folder / "compare.png"]
    save(compare_figure(summary), files[0])
    traced = TRACED if TRACED in played else next(iter(played))
    files.append(folder / f"{traced}.perfetto.json")
    write_atomically(files[-1], chrome_trace(folder / traced / "0", first=0, steps=TRACED_STEPS))
    objective = min(float(outcome.gpu_seconds.mean()) for outcome in played.values())
    return _finish(folder, summary, files, objective, DONE if len(played) == len(outcomes) else PARTIAL)


def _all_failed(outcomes: dict[str, Outcome]) -> BadInput | Infeasible:
    """The common reason, or each policy's own."""
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
    reasons = {failure.reason for failure in failures.values()}
    text = reasons.pop() if len(reasons) == 1 else "; ".join(f"{name}: {f.reason}" for name, f in failures.items())
    infeasible = any(failure.exit_code == INFEASIBLE for failure in failures.values())
    return Infeasible(text) if infeasible else BadInput(text)


def _finish(
    folder: Path, summary: dict[str, Any], files: list[Path], objective: float | None, exit_code: int = DONE
) -> Done:
    """`summary.json` last, so that it vouches for the rest; name the files."""
    write_atomically(folder / "summary.json", pretty(summary))
    for path in (folder / "summary.json", *files):
        sys.stdout.write(f"wrote {path}\n")
    failed = [f"{name}: {body['failed']}" for name, body in summary.get("policies", {}).items() if "failed" in body]
    return Done(exit_code, objective, _figures(summary), "; ".join(failed))


def _figures(summary: dict[str, Any]) -> dict[str, float | None]:
    """What a sweep's table shows of a point."""
    shown = ("gpu_seconds", "reduction", "padding", "idle")
    return {f"{name}.{key}": figures.get(key) for name, figures in summary.get("policies", {}).items() for key in shown}


def _expected(rows: list[dict[str, Any]], world: World) -> float | None:
    """Expected GPU seconds of a step of all groups."""
    if any(row["certificate"] is None for row in rows):
        return None
    return float(sum(row["certificate"]["expected_seconds"] for row in rows)) * world.cluster.gpus
