"""What a comparison is worth if the prices are uncertain: the plans and step plans of every policy, priced anew.

Each draw is one cost model that may be the truth. Every policy's directives, which were decided with the cost model as
it is, are priced under it in closed form (undrained steps by events), and the change against the prices as they are is
taken over to the policy's figures. So intervals of step seconds come with the chance that one policy beats another.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.guard import hulls
from costmodel.prior import read_half_width
from costmodel.sources import read_source
from costmodel.uncertainty import drawn, sigmas_of
from experiments.compare import Result
from lobra import stream
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, StepPlan
from lobra.protocols import CostModel
from sim.simulator import Simulator

LOW, HIGH = 0.05, 0.95
Directive = DeploymentPlan | StepPlan


@dataclass(frozen=True, slots=True)
class Played:
    """A policy that was played: its figures, and each group's directives."""

    gpu_seconds: float  # a step
    step_seconds: float
    groups: tuple[tuple[Directive, ...], ...]


def check_draws(draws: int) -> None:
    """Refuse a number that is none."""
    if draws < 0 or draws == 1:
        raise BadInput(f"intervals.draws is {draws}; give 0 for none, or at least 2, such as 50")


def with_intervals(
    summary: dict[str, Any],
    results: Mapping[str, Result],
    cost: CostModel,
    folder: Path,
    *,
    seed: int,
    draws: int,
    file: str | None = None,
) -> None:
    """Add `prices` to every policy of the summary: its interval, and the chance that it beats each other one.

    file: of fitted coefficients, for the half-width that was found with them.
    """
    half_width = read_half_width(read_source(Path(file), "floor_form")) if file is not None else 0.0
    played = {name: read_played(result, folder / name) for name, result in results.items()}
    told = price_intervals(played, cost, seed=seed, draws=draws, half_width=half_width)
    for name, row in told.items():
        summary["policies"][name]["prices"] = row


def read_played(result: Result, folder: Path) -> Played:
    """A policy's directives out of its folder."""
    groups = tuple(
        tuple(stream.read(folder / str(number) / "directives.jsonl")) for number in range(len(result.groups))
    )
    return Played(float(result.gpu_seconds.mean()), float(result.step_seconds.mean()), groups)


def price_intervals(
    played: Mapping[str, Played], cost: CostModel, *, seed: int, draws: int, half_width: float = 0.0
) -> dict[str, dict[str, Any]]:
    """Of each policy: draws, 90 % intervals of GPU and step seconds, share of draws in which it beats each other."""
    factors = price_factors(played, cost, seed=seed, draws=draws, half_width=half_width)
    costs = {name: played[name].gpu_seconds * values for name, values in factors.items()}
    return {name: _row(name, played[name], factors[name], costs) for name in played}


def price_factors(
    played: Mapping[str, Played], cost: CostModel, *, seed: int, draws: int, half_width: float = 0.0
) -> dict[str, Array]:
    """By what each policy's seconds change in each draw, float64 [draws]; a draw is the same truth for all of them."""
    sigmas = sigmas_in_use(played, cost, half_width)
    usual = {name: seconds_of(each, cost) for name, each in played.items()}
    factors: dict[str, list[float]] = {name: [] for name in played}
    for draw in range(draws):
        truth = drawn(cost, sigmas, seed=seed, draw=draw)
        for name, each in played.items():
            factors[name].append(seconds_of(each, truth) / usual[name] if usual[name] > 0 else 1.0)
    return {name: np.array(values) for name, values in factors.items()}


def seconds_of(played: Played, cost: CostModel) -> float:
    """Seconds of all groups' steps under these prices, planning and deployment left out."""
    return sum(
        report.seconds
        for directives in played.groups
        for report in Simulator(cost, fidelity=_fidelity(directives), spans=False, check=False).play(directives)
    )


def interval_lines(summary: dict[str, Any]) -> list[str]:
    """The same for people: each policy's interval, and how surely it beats the baseline."""
    lines = []
    for name, figures in summary["policies"].items():
        row = figures.get("prices")
        if row is None:
            continue
        low, high = row["gpu_seconds"]
        text = f"{name}: {low:.2f}..{high:.2f} GPU s/step"
        chance = row["beats"].get(summary["baseline"])
        lines.append(text if chance is None else f"{text}, beats {summary['baseline']} with probability {chance:.2f}")
    if lines:
        draws = next(row["prices"]["draws"] for row in summary["policies"].values() if "prices" in row)
        lines.insert(0, f"if the prices are uncertain ({draws} joint draws of the cost model, 90 % intervals):")
    return lines


def _row(name: str, played: Played, factors: Array, costs: Mapping[str, Array]) -> dict[str, Any]:
    low, high = np.quantile(factors, [LOW, HIGH]).tolist()
    return {
        "draws": len(factors),
        "gpu_seconds": [low * played.gpu_seconds, high * played.gpu_seconds],
        "step_seconds": [low * played.step_seconds, high * played.step_seconds],
        "beats": {other: float(np.mean(costs[name] < costs[other])) for other in costs if other != name},
    }


def sigmas_in_use(played: Mapping[str, Played], cost: CostModel, half_width: float) -> dict[tuple[int, int], float]:
    """The systematic term of every (tp, pp) that any policy uses; the same for all of them."""
    known, excesses, plans = hulls(cost), defaultdict[tuple[int, int], float](lambda: 1.0), list[DeploymentPlan]()
    for each in played.values():
        for directives in each.groups:
            for plan, step in _steps(directives):
                if not plans or plans[-1] is not plan:
                    plans.append(plan)
                for replica, work in zip(plan.replicas, step.work, strict=True):
                    key, hull = (replica.config.tp, replica.config.pp), known.get(replica.config.tp)
                    if hull is not None:
                        excesses[key] = max([excesses[key], *(hull.excess(shape) for shape in _shapes(work))])
    sigmas: dict[tuple[int, int], float] = {}
    for plan in plans:
        configs = {replica.config for replica in plan.replicas}
        for key, sigma in sigmas_of(cost, configs, plan.tenants, excesses, half_width).items():
            sigmas[key] = max(sigmas.get(key, 0.0), sigma)
    return sigmas


def _shapes(work: tuple[MicroBatch, ...]) -> Iterator[Any]:
    return (microbatch.shape for microbatch in work)


def _steps(directives: tuple[Directive, ...]) -> Iterator[tuple[DeploymentPlan, StepPlan]]:
    plan: DeploymentPlan | None = None
    for directive in directives:
        if isinstance(directive, DeploymentPlan):
            plan = directive
        elif plan is not None:
            yield plan, directive


def _fidelity(directives: tuple[Directive, ...]) -> Any:
    drained = all(directive.drain for directive in directives if isinstance(directive, StepPlan))
    return "closed" if drained else "pipeline"
