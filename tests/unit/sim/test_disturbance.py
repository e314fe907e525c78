"""Noise: what it changes, and what it must not depend on."""

from typing import Any

import numpy as np
import pytest

from lobra.errors import BadInput
from sim.disturbance import Noise
from sim.simulator import Simulator
from unit.sim.worlds import PerToken, pipelines, report, tokens, work

JITTER = Noise(seed=3, jitter_sigma=0.4)


def test_jitter_has_mean_one() -> None:
    factors = JITTER.jitter(step=0, replica=0, stage=0, microbatches=200_000)

    assert factors.mean() == pytest.approx(1.0, abs=0.004)
    assert np.log(factors).std() == pytest.approx(0.4, abs=0.004)


def test_no_jitter_is_exactly_one() -> None:
    assert np.all(Noise(seed=3).jitter(0, 0, 0, 5) == 1.0)


def test_a_microbatch_has_the_same_jitter_whatever_comes_after_it() -> None:
    np.testing.assert_array_equal(JITTER.jitter(1, 2, 3, 4), JITTER.jitter(1, 2, 3, 9)[:4])


def test_every_step_replica_stage_and_seed_has_a_stream_of_its_own() -> None:
    drawn = {
        Noise(seed, 0.4).jitter(step, replica, stage, 1).tobytes()
        for seed in (0, 1)
        for step in (0, 1)
        for replica in (0, 1)
        for stage in (0, 1)
    }

    assert len(drawn) == 16


def test_stragglers_come_as_often_as_asked_for() -> None:
    noise = Noise(seed=1, straggler_probability=0.2, straggler_factor=3.0)
    slowdowns = [noise.slowdown(step, replica) for step in range(50) for replica in range(40)]

    assert {1.0, 3.0} == set(slowdowns)
    assert slowdowns.count(3.0) / 2000 == pytest.approx(0.2, abs=0.03)


def test_a_straggler_slows_all_its_operations_and_those_who_meet_it() -> None:
    everybody = Noise(straggler_probability=1.0, straggler_factor=2.0)

    assert report(Simulator(PerToken(), noise=everybody), pipelines(2), work([1, 1])).seconds == 2 * 9


def test_a_partner_waits_for_a_slow_member_at_the_next_operation() -> None:
    noise = Noise(seed=5, jitter_sigma=0.5)
    shared = tokens(8, 0, 1)
    played = report(Simulator(PerToken(), noise=noise), pipelines(1, 2), work([shared], [shared]))
    ends = [span.end for span in played.spans if span.kind == "forward"]
    starts = [span.start for span in played.spans if span.kind == "backward"]

    assert ends[0] != ends[1]
    assert starts == [max(ends)] * 2


def test_the_noise_of_a_replica_does_not_depend_on_the_others() -> None:
    simulator = Simulator(PerToken(), noise=JITTER)
    alone = report(simulator, pipelines(2, 2), work([], [3, 2, 1]))
    busy = report(simulator, pipelines(2, 2), work([9, 9, 9], [3, 2, 1]))

    def of_second(played: Any) -> list[Any]:
        return [span for span in played.spans if span.replica == 1 and span.kind != "synchronise"]

    assert len(of_second(alone)) == 12
    assert of_second(alone) == of_second(busy)


def test_noise_without_strength_changes_nothing() -> None:
    step = work([3, 2, 1])

    assert report(Simulator(PerToken()), pipelines(3), step) == report(
        Simulator(PerToken(), noise=Noise(seed=9)), pipelines(3), step
    )


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"jitter_sigma": -0.1}, "jitter_sigma is -0.1"),
        ({"straggler_probability": 1.5, "straggler_factor": 2.0}, "straggler_probability is 1.5"),
        ({"straggler_probability": 0.1, "straggler_factor": 0.5}, "straggler_factor is 0.5"),
        ({"straggler_probability": 0.1}, "straggler_factor is 1, which slows nobody"),
    ],
)
def test_impossible_noise_is_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Noise(**knobs)
