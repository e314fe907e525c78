"""Ranks that share cores."""

from functools import partial

import pytest
from simpy import Environment

from lobra.errors import BadInput
from sim.cores import Cores, Sharing
from sim.simulator import Simulator
from unit.sim.worlds import PerToken, pipelines, report, work

TWO_ON_ONE = Sharing(ranks=2, factors={1: 2.0})  # two ranks, one core


def ends(sharing: Sharing, operations: list[tuple[float, int, float]]) -> list[float]:
    """When operations end that begin at a time, with so many ranks and seconds of their own."""
    environment = Environment()
    cores, ended = Cores(environment, sharing), [0.0] * len(operations)

    def play(number: int, start: float, tp: int, seconds: float):
        yield environment.timeout(start)
        yield cores.work(tp, seconds)
        ended[number] = environment.now

    for number, operation in enumerate(operations):
        environment.process(play(number, *operation))
    environment.run()
    return ended


def test_an_operation_alone_takes_its_own_seconds():
    assert ends(TWO_ON_ONE, [(0, 1, 3.0)]) == [3.0]


def test_two_on_one_core_take_twice_as_long():
    assert ends(TWO_ON_ONE, [(0, 1, 3.0), (0, 1, 3.0)]) == [6.0, 6.0]


def test_who_is_left_speeds_up():
    assert ends(TWO_ON_ONE, [(0, 1, 1.0), (0, 1, 3.0)]) == [2.0, 4.0]  # the core works without a pause: 1 + 3 seconds


def test_who_comes_late_slows_the_others():
    assert ends(TWO_ON_ONE, [(0, 1, 2.0), (1, 1, 1.0)]) == pytest.approx([3.0, 3.0])


def test_the_slowdown_grows_in_proportion_to_busy_ranks():
    sharing = Sharing(ranks=4, factors={1: 2.5, 2: 1.8})
    assert [sharing.slowdown(1, busy) for busy in (1, 2, 3, 4)] == pytest.approx([1, 1.5, 2, 2.5])
    assert [sharing.slowdown(2, busy) for busy in (2, 3, 4)] == pytest.approx([1, 1.4, 1.8])


def test_enough_cores_change_nothing():
    quiet = Sharing(ranks=8, factors={1: 1.0})
    deployment, jobs = pipelines(2, 2), work([3, 2, 5], [4, 4])

    assert report(Simulator(PerToken(), sharing=quiet), deployment, jobs) == report(
        Simulator(PerToken()), deployment, jobs
    )


def test_replicas_on_shared_cores_slow_each_other_and_only_while_both_are_busy():
    sharing = Sharing(ranks=2, factors={1: 2.0})
    deployment = pipelines(1, 2)
    play = partial(report, Simulator(PerToken(), sharing=sharing), deployment)
    short, long = (report(Simulator(PerToken()), deployment, work([n], [])).seconds for n in (2, 6))

    assert play(work([6], [])).seconds == long
    assert play(work([2], [6])).seconds == pytest.approx(short + long)
    assert play(work([6], [6])).seconds == pytest.approx(2 * long)


def test_what_shared_cores_cannot_do_is_refused():
    with pytest.raises(BadInput, match="the closed form cannot share cores"):
        Simulator(PerToken(), fidelity="closed", sharing=TWO_ON_ONE)
    with pytest.raises(BadInput, match="factors are finite, 1 or more"):
        Sharing(2, {1: 0.5})
