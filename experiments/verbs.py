"""The verbs that play: `run` and `compare`."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from executor.failures import RankFailure
from experiments import schema
from experiments.build import build_backend, build_policy, build_world
from experiments.compare import Failure, Outcome, Result, result_of, summarise
from experiments.export import chrome_trace
from experiments.failures import DONE, INFEASIBLE, INTERNAL, PARTIAL
from experiments.figures import compare_figure, save
from experiments.intervals import check_draws, interval_lines, with_intervals
from experiments.job import Done, Job
from experiments.playing import play_all
from experiments.progress import reporting
from experiments.rundir import pretty
from experiments.tables import print_comparison
from experiments.training import executed, is_real, tell_training
from experiments.walk import walk
from lobra.errors import BadInput, Infeasible
from lobra.files import write_atomically

TRACED = "lobra"  # the policy whose first steps are exported
TRACED_STEPS = 3


def run(job: Job, folder: Path) -> Done:
    """Play one policy on one backend: directives, trace and timings of every group."""
    world = build_world(job.config)
    backend = build_backend(job.config, world)
    (name, config), steps = next(iter(job.policies.items())), job.config.steps
    with reporting(1) as reporter, reporter.part(name, steps) as tick:
        policy = build_policy(config, job.config.seed)
        groups = walk(policy, world, backend, steps=steps, folder=folder, tick=tick)
    outcome = result_of(groups, world.cost)
    if real := is_real(job.config):
        outcome = executed(outcome)
    summary = summarise({name: outcome}, job.config.seed)
    print_comparison(summary)
    gone = tell_training(summary, groups, folder) if real else []
    streams = [folder / str(number) / "trace.jsonl" for number in range(len(groups))]
    done = _finish(folder, summary, streams, float(outcome.gpu_seconds.mean()), PARTIAL if gone else DONE)
    return replace(done, reason=f"quarantined: {', '.join(gone)}") if gone else done


def compare(job: Job, folder: Path) -> Done:
    """Play many policies on the same batches; one that cannot be played is told of and does not stop the others."""
    world, draws = build_world(job.config), cast(schema.Compare, job.config).intervals.draws
    check_draws(draws)
    with reporting(len(job.policies)) as reporter:
        outcomes = play_all(job, world, folder, reporter)
    played = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Result)}
    if not played:
        raise _all_failed(outcomes)
    summary = summarise(outcomes, job.config.seed)
    print_comparison(summary)
    if draws:
        with_intervals(
            summary, played, world.cost, folder, seed=job.config.seed, draws=draws, file=job.config.cost.file
        )
        sys.stdout.write("".join(f"{line}\n" for line in interval_lines(summary)))
    files = [folder / "compare.png"]
    save(compare_figure(summary), files[0])
    traced = TRACED if TRACED in played else next(iter(played))
    files.append(folder / f"{traced}.perfetto.json")
    write_atomically(files[-1], chrome_trace(folder / traced / "0", first=0, steps=TRACED_STEPS))
    objective = min(float(outcome.gpu_seconds.mean()) for outcome in played.values())
    gone = _trained(summary, played, folder) if is_real(job.config) else []
    done = _finish(folder, summary, files, objective, DONE if len(played) == len(outcomes) and not gone else PARTIAL)
    return replace(done, reason="; ".join([*filter(None, [done.reason]), *gone])) if gone else done


def _trained(summary: dict[str, Any], played: dict[str, Result], folder: Path) -> list[str]:
    """What the policies taught, told of one after another; what has to be said of those that gave a tenant up."""
    gone = {
        name: tell_training(summary["policies"][name], result.groups, folder / name, name)
        for name, result in played.items()
    }
    return [f"{name}: quarantined: {', '.join(tenants)}" for name, tenants in gone.items() if tenants]


def _all_failed(outcomes: dict[str, Outcome]) -> BadInput | Infeasible | RankFailure:
    """The common reason, or each policy's own."""
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
    reasons = {failure.reason for failure in failures.values()}
    text = reasons.pop() if len(reasons) == 1 else "; ".join(f"{name}: {f.reason}" for name, f in failures.items())
    codes = {failure.exit_code for failure in failures.values()}
    if INTERNAL in codes:
        return RankFailure(text)
    return Infeasible(text) if INFEASIBLE in codes else BadInput(text)


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
