"""What the simulator says of a run that was played: its step times, and an interval in which each of them should lie.

An interval is of two things: prices that may be the truth (as `lobra fit` found them uncertain), and, if asked for,
noise as the profile's repeats show it. The prediction itself is without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.prior import read_half_width
from costmodel.sources import read_source
from costmodel.uncertainty import drawn
from experiments import schema
from experiments.build import build_simulator
from experiments.intervals import HIGH, LOW, Played, sigmas_in_use
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel
from lobra.stream import Writer
from lobra.trace import StepReport

Directive = DeploymentPlan | StepPlan


@dataclass(frozen=True, slots=True)
class Predictor:
    """A simulator by its knobs, with prices out of a file that `lobra fit` wrote."""

    config: schema.Sim
    cost: CostModel
    file: Path

    def simulated(self, directives: Sequence[Directive], folder: Path) -> list[StepReport]:
        """Reports without noise, also as a trace in the folder."""
        quiet = replace(self.config, noise=schema.Noise())
        reports = list(build_simulator(quiet, self.cost, 0, str(self.file)).play(iter(directives)))
        with Writer(folder / "predicted.jsonl") as writer:
            for report in reports:
                writer.append(report)
        return reports

    def interval(self, directives: Sequence[Directive], draws: int) -> tuple[Array, Array]:
        """Lower and upper ends of 90 % intervals of the step seconds; float64 [steps] each."""
        half_width = read_half_width(read_source(self.file, "floor_form"))
        sigmas = sigmas_in_use({"": Played(1.0, 1.0, (tuple(directives),))}, self.cost, half_width)
        seconds = []
        for draw in range(draws):
            usual = build_simulator(self.config, self.cost, draw, str(self.file))
            simulator = replace(usual, cost=drawn(usual.cost, sigmas, seed=0, draw=draw), spans=False, check=False)
            seconds.append([report.seconds for report in simulator.play(iter(directives))])
        low, high = np.quantile(np.array(seconds), [LOW, HIGH], axis=0)
        return low, high


def check_prediction(config: Any, draws: int) -> None:
    """Refuse what is no simulator, and noise that nobody would see."""
    if not isinstance(config, schema.Sim):
        raise BadInput("backend: a run is compared with the simulator; use backend=sim")
    if draws < 0 or draws == 1:
        raise BadInput(f"draws is {draws}; give 0 for no interval, or at least 2, such as 50")
    if draws == 0 and config.noise != schema.Noise():
        raise BadInput("backend.noise: a prediction has none, only its interval; give draws=50 too")


def coverage(plays: Sequence[Sequence[float]], low: Array, high: Array) -> dict[str, Any]:
    """How many measured step seconds of all plays lie in their intervals; the first step, which warms up, is left out.

    plays: seconds by step, of each play.
    """
    measured = np.array(plays)
    inside = (measured >= low) & (measured <= high)
    counted = inside[:, 1:] if measured.shape[1] > 1 else inside
    return {
        "low_seconds": low.tolist(),
        "high_seconds": high.tolist(),
        "covered": int(counted.sum()),
        "of": int(counted.size),
    }
