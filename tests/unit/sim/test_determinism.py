"""The same input gives the same bytes, in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lobra import codec
from lobra.plan import DeploymentPlan, StepPlan
from sim.disturbance import Noise
from sim.simulator import Simulator
from toys import ToyCost, plan
from unit.sim.worlds import tokens, work

TESTS = Path(__file__).parents[2]


def trace() -> str:
    """A world with groups, transfers, ties, noise, waits and a re-deployment, as lines of JSON."""
    first, second = tokens(900, 0, 1), tokens(700, 1, 2)
    steps = [
        work([first, 90, 90, 90, 30], [first, second, 90], [second, 90, 90], [90, 90, 90, 30], [], step=step)
        for step in range(2)
    ]
    deployment = plan((1, 2, 3), (2, 2, 2))
    cost = ToyCost(transfer=1e-3, synchronise=1e-2)
    noise = Noise(seed=4, jitter_sigma=0.2, straggler_probability=0.3, straggler_factor=2.0)
    lines = []
    for disturbed in (None, noise):
        simulator = Simulator(cost, planning_seconds=0.01, noise=disturbed, deploy_seconds=0.5)
        lines += [codec.encode(played) for played in simulator.play([deployment, steps[0], deployment, steps[1]])]
    return "\n".join(lines)


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_another_process_with_another_hash_seed_gives_the_same_bytes(hash_seed: str) -> None:
    script = "from unit.sim.test_determinism import trace; import sys; sys.stdout.write(trace())"
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}

    other = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)

    assert len(trace()) > 10_000
    assert trace() == other.stdout


def test_a_simulator_may_play_twice() -> None:
    simulator = Simulator(ToyCost(), planning_seconds=[0.1], noise=Noise(seed=1, jitter_sigma=0.3))
    directives: list[DeploymentPlan | StepPlan] = [plan((1, 4, 2)), work([100, 90], [80])]

    assert list(simulator.play(directives)) == list(simulator.play(directives))


def test_spans_are_ordered_by_start_then_replica_then_stage() -> None:
    deployment, step = plan((1, 2, 3)), work([90, 30], [90, 30], [90, 30])
    (played,) = Simulator(ToyCost(transfer=1e-3)).play([deployment, step])
    keys = [(span.start, span.replica, span.stage) for span in played.spans]

    assert keys == sorted(keys)
    assert len({span.start for span in played.spans}) < len(keys)  # there are ties to break
