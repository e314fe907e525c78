"""A fleet in fake time: who begins, who waits, who leaves, and where every GPU second goes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.errors import BadInput
from sim.fleet.asking import all_at_once
from sim.fleet.fleet import Fleet
from sim.fleet.nouns import Job, Split, StepTime, Verdict

GPUS = 4


def job(name: str, at: float, steps: int, **more: object) -> Job:
    return Job(name, at, steps, step_tokens=100.0, **more)  # type: ignore[arg-type]


def one_second_each(jobs: tuple[str, ...], plan: str) -> StepTime:
    """A step takes a second a tenant, three quarters of it useful."""
    del plan
    return StepTime((float(len(jobs)),), Split(useful=3.0, bubble=1.0))


def stay(now: float, running: str | None, jobs: tuple[str, ...], cause: str) -> Verdict[str]:
    del now, jobs, cause
    return Verdict(running or "first", moved=running is None)


def fleet(**more: object) -> Fleet[str]:
    return Fleet(GPUS, **({"step_times": one_second_each, "admit": all_at_once, "decide": stay} | more))  # type: ignore[arg-type]


def told(history) -> list[tuple[float, float, str, tuple[str, ...], int]]:
    return [(each.start_seconds, each.seconds, each.phase, each.jobs, each.steps) for each in history.intervals]


def test_a_tenant_joins_at_the_end_of_a_step_and_both_slow_down():
    history = fleet().play([job("a", 0, 10), job("b", 2.5, 2)])

    assert told(history) == [(0, 3, "train", ("a",), 3), (3, 4, "train", ("a", "b"), 2), (7, 5, "train", ("a",), 5)]
    assert [(each.start_seconds, each.finish_seconds, each.steps) for each in history.records] == [
        (0, 12, 10),
        (3, 7, 2),
    ]
    assert history.records[1].wait_seconds == 0.5
    assert history.records[1].completion_seconds == 4.5
    assert history.records[1].tokens == 200


def test_a_cluster_without_tenants_idles_until_one_comes():
    history = fleet().play([job("a", 5, 2), job("b", 10, 1)])

    assert told(history) == [
        (0, 5, "idle", (), 0),
        (5, 2, "train", ("a",), 2),
        (7, 3, "idle", (), 0),
        (10, 1, "train", ("b",), 1),
    ]
    assert history.split == Split(useful=9.0, bubble=3.0, idle=32.0)


def test_planning_and_moving_delay_the_first_step_and_are_paid_by_all_gpus():
    def move(now: float, running: str | None, jobs: tuple[str, ...], cause: str) -> Verdict[str]:
        del now, running, cause
        return Verdict("+".join(jobs), moved=True, moving_seconds=3.0, planning_seconds=1.0)

    history = fleet(decide=move).play([job("a", 0, 2), job("b", 3, 1)])

    assert told(history) == [
        (0, 1, "planning", ("a",), 0),
        (1, 3, "redeployment", ("a",), 0),
        (4, 1, "train", ("a",), 1),  # b came meanwhile: one step, then b
        (5, 1, "planning", ("a", "b"), 0),
        (6, 3, "redeployment", ("a", "b"), 0),
        (9, 2, "train", ("a", "b"), 1),
    ]
    assert history.split == Split(useful=9.0, bubble=3.0, planning=8.0, redeployment=24.0)
    assert history.moves == 2
    assert history.records[0].wait_seconds == 4


def test_who_is_not_admitted_waits_until_another_leaves():
    def one_at_a_time(now, queue, active, plan):
        del now, plan
        return () if active else (queue[0].name,)

    history = fleet(admit=one_at_a_time).play([job("a", 0, 3), job("b", 1, 2), job("c", 1, 1)])

    assert [each.finish_seconds for each in history.records] == [3, 5, 6]
    assert [each.wait_seconds for each in history.records] == [0, 2, 4]


def test_who_is_never_admitted_has_no_start_and_no_end():
    history = fleet(admit=lambda *_: ()).play([job("a", 2, 3, deadline_seconds=100)])

    record = history.records[0]
    assert (record.start_seconds, record.finish_seconds, record.wait_seconds, record.late) == (None, None, None, True)
    assert history.seconds == 2


def test_a_period_asks_for_decisions_without_a_change():
    causes = []

    def remember(now: float, running: str | None, jobs: tuple[str, ...], cause: str) -> Verdict[str]:
        causes.append((now, cause))
        return stay(now, running, jobs, cause)

    fleet(decide=remember, period_seconds=2.5).play([job("a", 0, 8)])

    assert causes == [(0, "change"), (3, "timer"), (6, "timer")]


def test_the_fleet_ends_with_the_step_under_way_at_its_horizon():
    history = fleet(until_seconds=4.2).play([job("a", 0, 100)])

    assert (history.seconds, history.records[0].steps, history.records[0].finish_seconds) == (5, 5, None)


def test_a_million_steps_are_one_interval_of_the_mean_of_the_played_batches():
    def varied(jobs: tuple[str, ...], plan: str) -> StepTime:
        del jobs, plan
        return StepTime((1.0, 2.0, 3.0), Split(useful=1.0))

    history = fleet(step_times=varied, seed=3).play([job("a", 0, 1_000_000)])
    deviation = math.sqrt(2 / 3 * 1e6)

    assert len(history.intervals) == 1
    assert abs(history.seconds - 2e6) < 5 * deviation
    assert history == fleet(step_times=varied, seed=3).play([job("a", 0, 1_000_000)])
    assert history.seconds != fleet(step_times=varied, seed=4).play([job("a", 0, 1_000_000)]).seconds


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.integers(1, 20), st.floats(0.01, 3), st.floats(0, 2)), min_size=1, max_size=8
    ),
    st.integers(0, 5),
)
def test_every_gpu_second_is_accounted_for_and_every_budget_is_used(given_jobs, seed):
    prices = {f"j{number}": each[2] for number, each in enumerate(given_jobs)}
    jobs = [job(f"j{number}", each[0], each[1]) for number, each in enumerate(given_jobs)]

    def times(names: tuple[str, ...], plan: str) -> StepTime:
        del plan
        mean = sum(prices[name] for name in names)
        return StepTime((0.5 * mean, 1.5 * mean), Split(useful=2.0, padding=1.0, synchronisation=0.1))

    def move(now: float, running: str | None, names: tuple[str, ...], cause: str) -> Verdict[str]:
        del now, running, cause
        return Verdict("x", moved=True, moving_seconds=given_jobs[len(names) - 1][3])

    history = fleet(step_times=times, decide=move, seed=seed).play(jobs)

    assert history.split.total == pytest.approx(GPUS * history.seconds, rel=1e-9)
    ends = [0.0, *(interval.end_seconds for interval in history.intervals)]
    assert [each.start_seconds for each in history.intervals] == pytest.approx(ends[:-1], rel=1e-9, abs=1e-9)
    for record in history.records:
        trained = sum(each.steps for each in history.intervals if record.job.name in each.jobs)
        assert (record.steps, trained) == (record.job.steps, record.job.steps)
        assert record.start_seconds is not None
        assert record.start_seconds >= record.job.at_seconds


def test_a_name_that_stands_twice_is_refused():
    with pytest.raises(BadInput, match="'a' stands twice"):
        fleet().play([job("a", 0, 1), job("a", 1, 1)])
