"""How far the simulator can be trusted on this machine: its steps beside those of real ranks, policy by policy.

    python benchmarks/validate_machine.py --json FILE [--ranks 2] [--steps 4] [--rounds 3] [--folder FOLDER]

`lobra profile` times single micro-batches of the demonstration's model on as many ranks as asked for, once before
every round and once after the last, and `lobra fit` makes coefficients of them. In each round several policies train
the demonstration's four mixed tenants in one job, taking turns, on the same batches. The simulator predicts each of
those steps; none went into the fit. Ranks wait for the slowest, so steps are longer than their typical micro-batches
say: the prediction is the median over draws of the noise that the profile's repeats show.

Printed: the mean relative error of a step (medians over rounds, steps that warm up left out) beside how far two plays
of the same step are apart, and the order of the policies, measured and predicted.

Times are of the wall clock: ranks wait for one another, which no count of processor seconds sees. So run it while the
machine does nothing else; load and drift are printed. `validate_costmodel.py --validated FILE` makes rows of FILE.
Exit code 1 if a step is off by more than 10 % on average, or another policy wins than was predicted.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fidelity.machine import BAR
from fidelity.machine_profile import drift, joined, sitting
from fidelity.machine_rounds import Part, parts_of, played, told
from fidelity.machine_setting import POLICIES, fitted, profile_config, world_config
from fidelity.machine_story import figures, show, table
from fidelity.machine_verdict import Steps

from experiments.build import build_policy, build_simulator, build_world
from experiments.composing import policy_configs
from experiments.rundir import pretty
from experiments.schema import Noise, Sim, register
from experiments.schema_executor import Torch
from experiments.torch_backend import described
from lobra.batch import Array
from lobra.files import write_atomically
from lobra.protocols import CostModel
from sim.simulator import Simulator

MAIN = "with the noise of the profile's repeats"
PREDICTIONS = {
    MAIN: Sim(noise=Noise(fitted=True)),
    "without noise": Sim(),
    "with noise, and shared cores instead of one factor": Sim(noise=Noise(fitted=True), share_cores=True),
}
DRAWS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ranks", type=int, default=2, help="as many as cores, or more")
    parser.add_argument("--steps", type=int, default=4, help="held-out batches, beside one that warms up")
    parser.add_argument("--rounds", type=int, default=3, help="times that every step is played")
    parser.add_argument("--repeats", type=int, default=2, help="of each sitting of the profile")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--folder", type=Path, help="where files stay; none given: a temporary one")
    options = parser.parse_args(arguments)
    register()  # of the configurations' classes
    with tempfile.TemporaryDirectory() as temporary:
        body = found(options, options.folder or Path(temporary))
    show(body)
    if options.json is not None:
        write_atomically(options.json, pretty(body))
        print(f"wrote {options.json}")
    told_ = body["figures"]
    return int(told_["step_error"] > BAR or told_["winner"] != told_["predicted_winner"])


def found(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Profile, play, profile, fit, predict; everything that is told."""
    config = profile_config(options.ranks, options.repeats)
    sittings, loads = [sitting(config, folder / "sitting-0")], [os.getloadavg()[0]]
    parts = planned(options, fitted(sittings[0], folder / "sitting-0"))
    rounds = []
    for number in range(options.rounds):
        rounds.append(measured(options, parts, number, folder))
        sittings.append(sitting(config, folder / f"sitting-{number + 1}"))
        loads.append(os.getloadavg()[0])
    seconds = [np.stack(part) for part in zip(*rounds, strict=True)]
    samples = joined(sittings, folder / "samples.csv")
    file = fitted(folder / "samples.csv", folder)
    cost = build_world(world_config(options.ranks, file)).cost
    predicted = {name: told(parts, simulators(cost, file, sim)) for name, sim in PREDICTIONS.items()}
    steps = {name: beside(parts, seconds, each) for name, each in predicted.items()}
    return {
        "schema": 1,
        "place": samples.place,
        "rounds": options.rounds,
        "batches": options.steps,
        "loads": loads,
        "sittings_against_median": drift(sittings),
        "profile_noise": samples.noise,
        "warnings": list(samples.warnings),
        "figures": figures(steps[MAIN]),
        "other_predictions": [{"name": name} | figures(each) for name, each in steps.items() if name != MAIN],
        "policies": table(steps[MAIN]),
    }


def simulators(cost: CostModel, file: Path, config: Sim) -> list[Simulator]:
    """As many as there are draws of its noise; one where it has none."""
    draws = DRAWS if config.noise.fitted else 1
    return [build_simulator(config, cost, draw, str(file)) for draw in range(draws)]


def planned(options: argparse.Namespace, file: Path) -> list[Part]:
    """What the policies decide, with the prices of the first sitting."""
    config = world_config(options.ranks, file)
    made = policy_configs(options.policies, config.plans)
    policies = {name: build_policy(policy, config.seed) for name, policy in made.items()}
    return parts_of(policies, build_world(config), options.steps)


def measured(options: argparse.Namespace, parts: Sequence[Part], number: int, folder: Path) -> list[Array]:
    """The seconds of every part on ranks in one round."""
    config = world_config(options.ranks, folder)
    cluster, data = parts[0].plan.cluster, {"kind": "patterns", "seed": 0}
    execution = described(Torch(), config.model, cluster, data=data, total_updates=None)
    return played(parts, number, execution, folder / f"round-{number}")


def beside(parts: Sequence[Part], seconds: Sequence[Array], predictions: Sequence[Array]) -> list[Steps]:
    """Measured and predicted, policy by policy."""
    found_ = []
    for name in dict.fromkeys(part.policy for part in parts):
        own = [place for place, part in enumerate(parts) if part.policy == name]
        columns = [np.concatenate([each[place] for place in own], axis=-1) for each in (seconds, predictions)]
        found_.append(Steps(name, *columns))
    return found_


if __name__ == "__main__":
    sys.exit(main())
