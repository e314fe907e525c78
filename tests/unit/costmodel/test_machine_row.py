"""This machine's row: rounds that interleave, figures of their definition, the same winner or not."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import toys
from costmodel.samples import DEPLOY, read_samples
from lobra.plan import DeploymentPlan, StepPlan
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.fixed import Fixed
from policies.dispatch.uniform import Uniform
from policies.grouping import OneByOne, Together
from policies.policy import Policy
from sim.simulator import Simulator
from unit.costmodel.test_samples import rows, table

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def load(name: str):
    return importlib.import_module(f"fidelity.{name}")


def steps(policy: str, measured: list[list[float]], predicted: list[float]):
    return load("machine_verdict").Steps(policy, np.array(measured), np.array(predicted))


FAST = ("fast", [[1.0, 1.0], [1.0, 1.2], [1.0, 1.1]], [0.9, 1.1])
SLOW = ("slow", [[2.0, 2.0], [2.2, 2.0], [2.1, 2.0]], [2.1, 2.2])
CLOSE = ("close", [[1.1, 1.1], [1.0, 1.1], [1.1, 1.1]], [1.0, 1.3])


def test_errors_are_against_the_median_of_the_rounds():
    found = load("machine_verdict").errors([steps(*FAST), steps(*SLOW)])
    assert found == pytest.approx([-0.1, 0.0, 0.0, 0.1])


def test_repeat_noise_is_the_mean_distance_of_two_plays_of_a_step():
    verdict = load("machine_verdict")
    assert verdict.repeat_noise([steps("a", [[1.0, 3.0], [1.0, 1.0]], [1.0, 1.0])]) == pytest.approx(0.5)
    assert np.isnan(verdict.repeat_noise([steps("a", [[1.0]], [1.0])]))


def test_a_pair_is_within_noise_unless_every_round_orders_it_alike():
    found = load("machine_verdict").pairs([steps(*FAST), steps(*SLOW), steps(*CLOSE)])

    assert [(pair.faster, pair.slower, pair.decided) for pair in found] == [
        ("fast", "slow", True),
        ("fast", "close", False),
        ("close", "slow", True),
    ]
    assert all(pair.agreed for pair in found)


def test_tau_counts_pairs_that_are_predicted_the_other_way():
    verdict, story = load("machine_verdict"), load("machine_story")
    wrong = ("fast", FAST[1], [3.0, 3.0])

    told = story.figures([steps(*wrong), steps(*SLOW), steps(*CLOSE)])

    assert told["kendall_tau"] == pytest.approx((1 - 2) / 3)
    assert told["tau_of_decided"] == 0.0
    assert (told["winner"], told["predicted_winner"]) == ("fast", "close")
    assert told["disagreed"] == ["fast / slow", "fast / close"]
    assert told["within_noise"] == ["fast / close"]
    assert verdict.tau([]) != verdict.tau([])


def body(*policies) -> dict:
    story, measured = load("machine_story"), [steps(*each) for each in policies]
    return {
        "place": {"ranks": "2", "cores": "2"},
        "rounds": 3,
        "sittings_against_median": [1.0, 1.02, 0.97],
        "figures": story.figures(measured),
        "policies": story.table(measured),
    }


@pytest.mark.parametrize(("fast", "same"), [(FAST, True), (("fast", FAST[1], [3.0, 3.0]), False)])
def test_a_file_makes_a_row_of_steps_and_a_row_of_the_order(tmp_path, fast, same):
    (tmp_path / "machine.json").write_text(json.dumps(body(fast, SLOW, CLOSE)))

    first, second = load("machine").rows(tmp_path / "machine.json")

    assert first.n == 6
    assert first.figure == pytest.approx(
        np.abs(load("machine_verdict").errors([steps(*fast), steps(*SLOW), steps(*CLOSE)])).mean()
    )
    assert (first.bar, first.holds) == (0.10, same)
    assert (second.n, second.holds) == (3, same)


def policy(name: str, grouping) -> Policy:
    return Policy(name, grouping, Fixed("4,1x2;8,1x1"), Padded(FixedBuckets((256, 1024, 4096))), Uniform())


def test_rounds_take_turns_and_deploy_only_what_differs():
    rounds = load("machine_rounds")
    world = importlib.import_module("experiments.walk").World(
        toys.workload(), toys.MODEL, toys.cluster(), toys.ToyCost()
    )
    made = {"one": policy("one", Together()), "two": policy("two", Together()), "apart": policy("apart", OneByOne())}

    parts = rounds.parts_of(made, world, 2)
    there, back = rounds.round_of(parts, 0), rounds.round_of(parts, 1)

    assert [len(part.steps) for part in parts] == [3] * len(parts)
    apart = len(parts) - 2
    for (directives, places), order in ((there, [*range(len(parts))]), (back, [*reversed(range(len(parts)))])):
        plans = [each for each in directives if isinstance(each, DeploymentPlan)]
        played = [each for each in directives if isinstance(each, StepPlan)]
        assert len(plans) == 1 + apart  # `one` and `two` share theirs
        assert [step.step for step in played] == list(range(3 * len(parts)))
        assert [place for place, position in places if position == 0] == order
        for step, (place, position) in zip(played, places, strict=True):
            assert step.work == parts[place].steps[position].work


def test_sittings_are_set_beside_their_median_and_one_that_was_disturbed_does_not_move_the_joint_table(tmp_path):
    profile = load("machine_profile")
    sittings = [table(tmp_path / f"{scale}.csv", rows(scale=scale, **{DEPLOY: 0.1})) for scale in (1.0, 1.3, 0.9)]

    assert profile.drift(sittings) == pytest.approx([1.0, 1.3, 0.9])
    whole = profile.joined(sittings, tmp_path / "whole.csv")
    alone = read_samples(sittings[0])
    assert [each.seconds for each in whole.timed] == pytest.approx([each.seconds for each in alone.timed])
    assert whole.place["repeats"] == "9"


def test_the_simulator_tells_of_each_part_without_the_step_that_warms_up():
    rounds = load("machine_rounds")
    world = importlib.import_module("experiments.walk").World(
        toys.workload(), toys.MODEL, toys.cluster(), toys.ToyCost()
    )
    parts = rounds.parts_of({"one": policy("one", Together())}, world, 2)

    slow, usual, fast = (Simulator(toys.ToyCost(token=token)) for token in (3e-3, 1e-3, 5e-4))

    (seconds,) = rounds.told(parts, [slow, usual, fast])
    (alone,) = rounds.told(parts, [usual])

    assert seconds.shape == (2,)
    assert np.all(seconds > 0)
    assert seconds.tolist() == alone.tolist()
