"""Nodes that are lost: what is kept, what is done again, and that many losses take what the closed form says."""

import itertools
import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.errors import BadInput
from sim.fleet.asking import all_at_once
from sim.fleet.fleet import Fleet
from sim.fleet.losses import Fragile, Lost, NodeLosses
from sim.fleet.nouns import Job, Loss, Split, StepTime, Verdict

GPUS = 4


@dataclass(frozen=True)
class Given:
    """Losses at these moments, and none after."""

    moments: tuple[float, ...]
    notice_seconds: float = 0.0
    mean_seconds: float = 1e9

    def coming(self):
        return itertools.chain((Lost(at, 0) for at in self.moments), itertools.repeat(Lost(math.inf, 0)))


def job(name, at, steps):
    return Job(name, at, steps, step_tokens=100.0)


def one_second(jobs, plan):
    """However many they are, three quarters of it useful."""
    del jobs, plan
    return StepTime((1.0,), Split(useful=3.0, bubble=1.0))


def stay(now, running, jobs, cause):
    del now, jobs, cause
    return Verdict(running or "first", moved=running is None)


TEN = (job("a", 0, 10),)


def played(losses, jobs=TEN, *, checkpoint=0.5, interval=4.0, restart=2.0, **more):
    fragile = Fragile(losses, checkpoint, interval, restart)
    return Fleet(GPUS, one_second, all_at_once, stay, fragile=fragile, **more).play(jobs)


def told(history):
    return [(each.start_seconds, each.seconds, each.phase, each.steps) for each in history.intervals]


def test_without_a_loss_training_takes_its_checkpoints_and_nothing_else():
    history = played(Given(()))

    assert told(history) == [(0, 11.5, "train", 10)]  # after steps 4, 8 and 10
    assert history.split == Split(useful=30.0, bubble=10.0, failed=6.0)


def test_a_loss_takes_what_came_after_the_last_checkpoint_and_the_restart_its_time():
    history = played(Given((6.7,)))

    assert told(history) == [(0, 4.5, "train", 4), (4.5, pytest.approx(4.2), "failed", 0), (8.7, 7, "train", 6)]
    assert history.losses == (Loss(6.7, 0, ("a",), steps=2, gpu_seconds=pytest.approx(4.2 * GPUS)),)
    assert history.records[0].finish_seconds == pytest.approx(15.7)


def test_a_loss_before_the_first_checkpoint_keeps_nothing_and_one_in_the_restart_begins_it_anew():
    history = played(Given((3.5, 4.5)))

    assert told(history) == [(0, 6.5, "failed", 0), (6.5, 11.5, "train", 10)]
    assert [each.steps for each in history.losses] == [3]  # the second hit nobody's work


def test_a_loss_while_a_checkpoint_is_written_takes_all_of_its_steps():
    assert played(Given((4.4,))).losses[0].steps == 4


def test_with_notice_enough_for_a_checkpoint_only_the_notice_and_the_step_under_way_are_lost():
    history = played(Given((7.8,), notice_seconds=1.0))

    assert told(history)[:2] == [(0, 6.5, "train", 6), (6.5, pytest.approx(3.3), "failed", 0)]
    assert history.losses[0].steps == 1  # from the notice on
    assert played(Given((7.8,), notice_seconds=0.4)).losses[0].steps == 3  # too short for a checkpoint of 0.5 s


def test_who_joins_begins_after_a_checkpoint_and_nobody_joins_in_a_restart():
    history = played(Given((6.7,)), (job("a", 0, 10), job("b", 2.5, 2), job("c", 7.0, 1)))

    assert told(history) == [
        (0, 3.5, "train", 3),  # b came at 2.5: the step under way and a checkpoint
        (3.5, 2.5, "train", 2),  # b leaves with its adapter saved
        (6, pytest.approx(2.7), "failed", 0),
        (pytest.approx(8.7), 1.5, "train", 1),  # c, who came at 7
        (pytest.approx(10.2), pytest.approx(4.5), "train", 4),
    ]
    assert [each.jobs for each in history.intervals] == [("a",), ("a", "b"), ("a",), ("a", "c"), ("a",)]


def test_losses_while_nobody_trains_are_not_felt():
    history = played(Given((3.0,)), (job("a", 5, 2),))

    assert (history.losses, history.seconds) == ((), 7.5)


def test_a_job_on_eight_nodes_loses_eight_times_as_often_and_all_jobs_of_a_node_at_once():
    def until(nodes, end):
        return list(itertools.takewhile(lambda lost: lost.at_seconds < end, NodeLosses(100.0, nodes, 7).coming()))

    all_eight = until(tuple(range(8)), 50_000)
    assert len(all_eight) == pytest.approx(8 * 500, abs=4 * math.sqrt(4000))
    assert [lost for lost in all_eight if lost.node == 3] == until((3,), 50_000)
    assert all_eight == sorted(all_eight)


@pytest.mark.parametrize(
    ("mean", "interval", "checkpoint", "restart"), [(1000.0, 300.0, 20.0, 50.0), (300.0, 60.0, 5.0, 30.0)]
)
def test_many_losses_take_what_the_closed_form_says(mean, interval, checkpoint, restart):
    """Daly (2006), equation 20: M e^(R/M) (e^((t + C)/M) - 1) for every t seconds of work; 10,000 intervals, 2 %."""
    work = 10_000 * interval
    fragile = Fragile(NodeLosses(2 * mean, (0, 1), seed=1), checkpoint, interval, restart)
    history = Fleet(GPUS, one_second, all_at_once, stay, fragile=fragile).play([job("a", 0, int(work))])
    expected = mean * math.exp(restart / mean) * math.expm1((interval + checkpoint) / mean) * work / interval

    assert history.seconds == pytest.approx(expected, rel=0.02)
    assert history.split.useful + history.split.bubble == pytest.approx(work * GPUS)
    assert history.split.failed == pytest.approx((history.seconds - work) * GPUS)


def test_with_notice_a_loss_takes_the_notice_half_a_step_and_the_restart():
    """2,000 h with a loss every 2 h: about 1,000 losses, 2 % of their cost."""
    steps, mean, restart, notice = 7_200_000, 7200.0, 300.0, 30.0
    fragile = Fragile(NodeLosses(mean, (0,), 3, notice), 5.0, 20_000.0, restart)
    history = Fleet(GPUS, one_second, all_at_once, stay, fragile=fragile).play([job("a", 0, steps)])
    losses = len(history.losses)
    waste = history.seconds - steps - 5.0 * history.split.useful / 3 / 20_000

    assert losses == pytest.approx(steps / mean, abs=4 * math.sqrt(steps / mean))
    assert waste / losses == pytest.approx(notice + 0.5 + mean * math.expm1(restart / mean), rel=0.02)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 60), st.integers(1, 20)), min_size=1, max_size=6),
    st.floats(5, 200),
    st.floats(0, 3),
    st.floats(0.5, 10),
    st.floats(0, 5),
    st.floats(0, 5),
    st.integers(0, 3),
)
def test_every_budget_is_used_and_every_gpu_second_accounted_for(
    jobs, mean, checkpoint, interval, restart, notice, seed
):
    fragile = Fragile(NodeLosses(2 * mean, (0, 1), seed, notice), checkpoint, interval, restart)
    work = [job(f"j{number}", at, steps) for number, (at, steps) in enumerate(jobs)]
    history = Fleet(GPUS, one_second, all_at_once, stay, fragile=fragile).play(work)

    assert all(each.steps == each.job.steps for each in history.records)
    assert all(each.finish_seconds is not None for each in history.records)
    assert history.split.total == pytest.approx(GPUS * history.seconds, rel=1e-9)
    for before, after in itertools.pairwise(history.intervals):
        assert before.end_seconds == pytest.approx(after.start_seconds, rel=1e-9)


def test_steps_longer_than_the_nodes_live_are_refused():
    with pytest.raises(BadInput, match="a step of 1 s and its checkpoint"):
        played(NodeLosses(0.01, (0,)), checkpoint=0.0, interval=0.1, restart=0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NodeLosses(0.0, (0,)), "node_mean_seconds is 0.0"),
        (lambda: NodeLosses(1.0, ()), "nodes is 0"),
        (lambda: NodeLosses(1.0, (1, 1)), "each node once"),
        (lambda: NodeLosses(1.0, (0,), notice_seconds=-1.0), "notice_seconds is -1.0"),
        (lambda: Fragile(NodeLosses(1e3, (0,)), -1.0, 10.0), "checkpoint_seconds is -1.0"),
        (lambda: Fragile(NodeLosses(1e3, (0,)), 1.0, 1e6), "interval_seconds is 1e"),
        (lambda: Fragile(NodeLosses(1e3, (0,)), 1.0, 10.0, 1e6), "restart_seconds is 1e"),
    ],
)
def test_losses_under_which_nothing_would_end_are_refused(make, message):
    with pytest.raises(BadInput, match=message):
        make()
