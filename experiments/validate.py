"""`lobra validate RUN`: the simulator plays what the executor played, and both step times stand side by side.

The cost model is fitted to a profile of this machine that knows the run's own model, tenants, layout and lengths; no
time of the run itself goes into it. The noise beside the comparison is that of the machine: how much the same steps
differ when the run is played again, and how much the profile's repeats do.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from costmodel.catalogue import cost_model
from costmodel.samples import Samples, read_samples
from executor import description
from executor.description import Execution
from experiments.fitting import fitted_file
from experiments.predicting import Predictor, check_prediction, coverage
from experiments.profile import NAME as SAMPLES
from experiments.profile import timed, write_samples
from experiments.profile_plan import points_of, profile_plan, shapes
from experiments.progress import reporting
from experiments.rundir import SCHEMA, pretty
from experiments.schema_executor import Torch, Validate
from experiments.tables import print_table
from experiments.torch_backend import JOB, launched
from experiments.traces import plan_of, reports_of
from lobra import stream
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.plan import DeploymentPlan, StepPlan
from lobra.trace import StepReport

Directive = DeploymentPlan | StepPlan
ROWS = (1, 4)


def validate(config: Validate, folder: Path) -> int:
    """Do the verb: samples, coefficients, the simulated trace and `summary.json` in the folder."""
    check_prediction(config.backend, config.draws)
    if config.again < 0:
        raise BadInput(f"again is {config.again}; it counts further plays of the run, 0 or more")
    group = Path(config.run) / str(config.group)
    plan, measured = plan_of(group), list(reports_of(group))
    if not (group / JOB / description.NAME).is_file() or not measured:
        raise BadInput(f"run: {config.run} was not played by the executor to an end; give one of backend=torch")
    directives: list[Directive] = list(stream.read(group / "directives.jsonl"))
    execution = description.load(group / JOB)
    samples = _samples(config, folder, plan, directives, execution=execution)
    budget = max(replica.budget for replica in plan.replicas)
    file = fitted_file(samples, folder, gpu=plan.cluster.gpu.name, max_tokens=budget)
    cost = cost_model(plan.model, plan.cluster, form="fitted", file=file)
    predictor = Predictor(config.backend, cost, file)
    predicted = predictor.simulated(directives, folder)
    interval = predictor.interval(directives, config.draws) if config.draws else None
    again = [_played_again(directives, execution, folder, number) for number in range(config.again)]
    body = summary(measured, predicted, again, samples)
    if interval is not None:
        plays = [body["measured_seconds"], *body["again_seconds"]]
        body["interval"] = coverage(plays, *interval) | {"draws": config.draws}
    _tell(body)
    write_atomically(folder / "summary.json", pretty(body))
    for name in (SAMPLES, file.name, "summary.json"):
        sys.stdout.write(f"wrote {folder / name}\n")
    return 0


def summary(
    measured: Sequence[StepReport],
    predicted: Sequence[StepReport],
    again: Sequence[Sequence[StepReport]],
    samples: Samples,
) -> dict[str, Any]:
    """How far prediction and measurement are apart, and how far measurements are from one another."""
    seconds = [_seconds(report) for report in measured]
    plays = [seconds, *([_seconds(report) for report in reports] for reports in again)]
    typical = [median(times) for times in zip(*plays, strict=True)]
    told = [report.seconds for report in predicted]
    errors = [abs(says / took - 1) for says, took in zip(told, typical, strict=True)]
    warm = slice(1, None) if len(told) > 1 else slice(None)  # the first step of a job allocates and loads lazily
    return {
        "schema": SCHEMA,
        "steps": len(seconds),
        "numbers": [report.step for report in measured],
        "measured_seconds": seconds,
        "predicted_seconds": told,
        "again_seconds": plays[1:],
        "ratio": sum(told[warm]) / sum(typical[warm]),
        "ratio_with_first": sum(told) / sum(typical),
        "mean_error": fmean(errors[warm]),
        "largest_error": max(errors[warm]),
        "first_error": errors[0],
        "step_noise": _noise([times[warm] for times in plays]) if again else None,
        "profile_noise": samples.noise,
        "interval": None,
        "place": samples.place,
        "warnings": list(samples.warnings),
    }


def _seconds(report: StepReport) -> float:
    """Seconds of a step without planning that was not hidden: a simulator of prices knows nothing of that."""
    return report.seconds - report.wait_seconds


def _noise(plays: Sequence[Sequence[float]]) -> float:
    """Mean over steps of how far the plays of a step are apart, as a share of their mean."""
    return fmean((max(times) - min(times)) / fmean(times) for times in zip(*plays, strict=True))


def _samples(
    config: Validate, folder: Path, plan: DeploymentPlan, directives: Sequence[Directive], *, execution: Execution
) -> Samples:
    """The profile that is given, or a short one of this machine with the run's own model, tenants and lengths."""
    if config.samples is not None:
        return read_samples(Path(config.samples))
    if any(replica.config.pp > 1 or replica.config.fsdp > 1 for replica in plan.replicas):
        sys.stderr.write("note: a profile times whole models on one stage; pipelines are added up from layers\n")
    steps = [directive for directive in directives if isinstance(directive, StepPlan)]
    used = [each for step in steps for work in step.work for each in work]
    widths = sorted(each.width for each in used if len(each.rows[0]) == 1 and not each.group) or [64]
    largest = max(len(each.rows) * each.width for each in used)
    lengths = {widths[0], widths[len(widths) // 2], widths[-1]}
    padded = [(rows, length) for length in lengths for rows in (*ROWS, largest // length)]
    packs = [[s.length for s in row] for each in used for row in each.rows if len(row) > 1][:2]
    micro = shapes(padded, packs, len(plan.tenants), largest=largest)
    tps = sorted({replica.config.tp for replica in plan.replicas})
    recomputes = sorted({0, *(replica.config.recompute for replica in plan.replicas)})
    points = points_of(micro, tps, recomputes, plan.cluster.gpus)
    asked = profile_plan(points, plan.model, plan.cluster, plan.tenants, config.repeats)
    quiet = replace(execution, data=description.knobs({"kind": "synthetic", "seed": 0}), faults=())
    rows = timed(asked, quiet, Torch(), folder / "profile", model=plan.model, cluster=plan.cluster)
    write_samples(folder / SAMPLES, rows)
    return read_samples(folder / SAMPLES)


def _played_again(directives: Sequence[Directive], execution: Execution, folder: Path, number: int) -> list[StepReport]:
    """The same directives on ranks once more, from their beginning."""
    place = folder / f"again-{number}"
    shutil.rmtree(place, ignore_errors=True)
    backend = launched(Torch(resume=False), replace(execution, checkpoint_steps=0))(place)
    steps = sum(isinstance(directive, StepPlan) for directive in directives)
    with reporting(1) as reporter, reporter.part("once more", steps) as tick:
        reports = []
        for report in backend.play(iter(directives)):
            reports.append(report)
            tick()
    return reports


def _tell(body: dict[str, Any]) -> None:
    plays, told = [body["measured_seconds"], *body["again_seconds"]], body["interval"]
    rows = []
    for step, (says, took) in enumerate(zip(body["predicted_seconds"], zip(*plays, strict=True), strict=True)):
        interval = f"{told['low_seconds'][step]:.3f}..{told['high_seconds'][step]:.3f}" if told else "n/a"
        times = (f"{each:.3f}" for each in took)
        rows.append((str(body["numbers"][step]), *times, f"{says:.3f}", interval, f"{says / median(took) - 1:+.1%}"))
    again = ("again s",) * (len(plays) - 1)
    print_table(("step", "measured s", *again, "predicted s", "90 % interval", "error"), rows, sys.stdout)
    noise = f"{body['step_noise']:.1%}" if body["step_noise"] is not None else "not measured (again=0)"
    sys.stdout.write(
        f"predicted / measured: {body['ratio']:.3f}; mean error of a step {body['mean_error']:.1%} "
        "(without the first, which warms up)\n"
        f"repeat noise: {noise} between plays of the same step; {body['profile_noise']:.1%} in the profile\n"
    )
    if told:
        sys.stdout.write(f"in their 90 % intervals: {told['covered']} of {told['of']} measured step times\n")
    place = body["place"]
    sys.stdout.write(f"{place['hardware']}: {place['ranks']} ranks on {place['cores']} cores\n")
    for warning in body["warnings"]:
        sys.stdout.write(f"warning: {warning}\n")
