"""The planner's clock, against the simulator."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies.adaptive.pipeline import makespan
from sim.simulator import Simulator
from unit.sim.worlds import PerToken, pipelines, seconds, work


@settings(max_examples=40, deadline=None)
@given(some.integers(1, 6), some.lists(some.integers(1, 20), max_size=10))
def test_it_agrees_with_the_simulator_for_any_number_of_slots(stages: int, sizes: list[int]):
    expected = seconds(PerToken(), pipelines(stages), work(sizes))

    assert makespan(sizes, [2.0 * size for size in sizes], stages) == pytest.approx(expected, rel=1e-12)


def test_an_empty_slot_takes_no_time_but_keeps_its_place():
    assert makespan([1, 1], [1, 1], 2) == 6
    assert makespan([1, 0, 1], [1, 0, 1], 2) == 8
    assert Simulator(PerToken()).cost
