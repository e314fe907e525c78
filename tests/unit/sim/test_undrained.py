"""Stretches that are not flushed: what they take, who waits for whom, and what is reported when."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, StepPlan
from lobra.spec import SequenceRef
from lobra.trace import StepReport
from sim.disturbance import Noise
from sim.simulator import Simulator
from toys import plan, tenant
from unit.sim.worlds import PerToken, log, overlaps, pipelines, report, work

TWO = (tenant("a"), tenant("b"))


def undrained(*shares: list[int], step: int = 0, updates: tuple[int, ...] | None = ()) -> StepPlan:
    return replace(work(*shares, step=step), updates=updates, drain=False)


def of(owner: int, count: int) -> MicroBatch:
    return MicroBatch(((SequenceRef(owner, 0, count, count),),), count)


def played(simulator: Simulator, *directives: DeploymentPlan | StepPlan) -> list[StepReport]:
    return list(simulator.play(directives))


def operations(reports: list[StepReport]) -> list[object]:
    return sorted(span for each in reports for span in each.spans if span.kind != "synchronise")


@settings(max_examples=40, deadline=None)
@given(
    some.integers(1, 5),
    some.lists(some.integers(1, 9), max_size=9),
    some.lists(some.integers(0, 3), max_size=3),
)
def test_step_plans_without_a_flush_are_one_long_step(pp: int, sizes: list[int], cuts: list[int]) -> None:
    """Oracle: the events of one step with all the micro-batches, on two replicas."""
    cost, other = PerToken(transfer=0.5, synchronise=2.0), sizes[::-1]
    whole = report(Simulator(cost), pipelines(pp, 2), work(sizes, other))
    ends = sorted({0, len(sizes), *(min(cut * 2, len(sizes)) for cut in cuts)})
    parts = [undrained(sizes[start:end], other[start:end]) for start, end in pairwise(ends)]

    reports = played(Simulator(cost), pipelines(pp, 2), *parts, work([], [], step=0))

    assert sum(each.seconds for each in reports) == pytest.approx(whole.seconds, rel=1e-12)
    assert sum(each.busy_gpu_seconds for each in reports) == pytest.approx(whole.busy_gpu_seconds, rel=1e-12)
    assert sum(each.tokens for each in reports) == whole.tokens
    assert operations(reports) == operations([whole])
    assert all(0 <= each.idle_share <= 1 for each in reports)


def test_each_report_has_the_seconds_since_the_one_before() -> None:
    """Two stages, three slots of 1 + 2 seconds, no flush: the first leaves at 6, and then one every 3."""
    reports = played(Simulator(PerToken()), pipelines(2), *(undrained([1]) for _ in range(3)))

    assert [each.seconds for each in reports] == [6, 3, 3]
    assert [each.busy_gpu_seconds for each in reports] == [9, 6, 3]
    assert [each.idle_share for each in reports] == pytest.approx([1 - 9 / 96, 1 - 6 / 48, 1 - 3 / 48])


def test_only_the_updating_tenants_own_work_waits_for_the_update() -> None:
    """Stage of 1 + 2 seconds, update of 10: tenant 1 goes on at once, tenant 0 comes back at 13."""
    deployed = plan((1, 1, 1), budget=100, tenants=TWO)
    steps = [StepPlan(0, ((of(owner, 1),),), updates, drain=False) for owner, updates in ((0, (0,)), (1, ()), (0, ()))]

    reports = played(Simulator(PerToken(synchronise=10)), deployed, *steps)

    assert log([span for each in reports for span in each.spans], "forward") == [
        ("0.0 F0", 0),
        ("0.0 F1", 3),
        ("0.0 F2", 13),
    ]


def test_a_replica_waits_for_the_others_gradients() -> None:
    """Replica 1 has 9 seconds of tenant 0 and replica 0 only 3: tenant 0 comes back on both after 9."""
    deployed = plan((1, 1, 2), budget=100, tenants=TWO)
    first = StepPlan(0, ((of(0, 1),), (of(0, 3),)), (0,), drain=False)
    second = StepPlan(1, ((of(0, 1),), (of(0, 1),)), (0,), drain=True)

    reports = played(Simulator(PerToken()), deployed, first, second)

    assert [each.seconds for each in reports] == [9, 3]
    assert log(reports[1].spans, "forward") == [("0.0 F1", 9), ("1.0 F1", 9)]


def test_the_flush_shows_the_last_update() -> None:
    reports = played(Simulator(PerToken(synchronise=5)), pipelines(2), undrained([1]), work([1]))

    assert [each.seconds for each in reports] == [6, 3 + 5]
    assert [(span.start, span.end) for span in reports[1].spans if span.kind == "synchronise"] == [(9, 14)] * 2


def test_a_step_plan_without_work_is_an_empty_slot() -> None:
    """Two stages: with one empty slot between, the second micro-batch waits for the first to come back."""
    close = played(Simulator(PerToken()), pipelines(2), undrained([1]), undrained([1]))
    apart = played(Simulator(PerToken()), pipelines(2), undrained([1]), undrained([]), undrained([1]))

    assert [each.seconds for each in close] == [6, 3]
    assert [each.seconds for each in apart] == [6, 1, 5]  # the empty slot leaves when the stage has begun the next


def test_whoever_comes_back_too_early_is_refused() -> None:
    with pytest.raises(BadInput, match="tenant 0 comes back to replica 0 1 slots before its update is done"):
        played(Simulator(PerToken()), pipelines(2), undrained([1], updates=(0,)), undrained([1]))


def test_the_closed_form_refuses_an_undrained_pipeline_by_name() -> None:
    with pytest.raises(BadInput, match="step 3: drain is false, but the closed form flushes every step"):
        played(Simulator(PerToken(), fidelity="closed"), pipelines(1), undrained([1], step=3))


def test_work_that_does_not_fit_is_refused_there_too() -> None:
    with pytest.raises(BadInput, match="holds 1025 tokens, but 1024 fit"):
        played(Simulator(PerToken()), plan((1, 1, 1)), undrained([1025]))


def test_a_step_is_planned_while_the_one_before_plays_and_its_parts_are_planned_together() -> None:
    """Planning takes 5: the first step shows all of it, the second what 3 seconds of work do not hide."""
    parts = [undrained([1], step=number) for number in (0, 1, 1, 2)]

    reports = played(Simulator(PerToken(), planning_seconds=5), pipelines(1), *parts)

    assert [(each.step, each.wait_seconds, each.seconds) for each in reports] == [
        (0, 5, 5 + 3),
        (1, 2, 2 + 3),
        (1, 0, 3),
        (2, 0, 3),
    ]


def test_the_clock_goes_on_behind_a_stretch() -> None:
    """A flushed step before and behind, a re-deployment in mid-stretch flushes too."""
    stream = [pipelines(2), work([1]), undrained([1], step=1), pipelines(1), undrained([1], step=2), work([2], step=3)]

    reports = played(Simulator(PerToken(), deploy_seconds=7), *stream, work([1], step=4))

    assert [each.seconds for each in reports] == [6, 6, 7 + 3, 6, 3]
    assert [each.spans[0].kind for each in reports] == ["forward", "forward", "deploy", "forward", "forward"]
    assert [min(span.start for span in each.spans) for each in reports] == [0, 6, 12, 22, 28]


def test_reports_come_while_the_stretch_goes_on() -> None:
    made: list[int] = []

    def directives() -> Iterator[DeploymentPlan | StepPlan]:
        yield pipelines(2)
        for number in range(9):
            made.append(number)
            yield undrained([1], step=number)

    reports = Simulator(PerToken()).play(directives())

    assert [(next(reports).step, len(made)) for _ in range(3)] == [(0, 3), (1, 4), (2, 5)]


def test_noise_goes_on_from_part_to_part_of_a_step() -> None:
    noise = Noise(seed=3, jitter_sigma=0.3)
    whole = report(Simulator(PerToken(), noise=noise), pipelines(3), work([1, 2, 3, 4]))
    parts = [undrained([1]), undrained([2, 3]), work([4])]

    reports = played(Simulator(PerToken(), noise=noise), pipelines(3), *parts)

    assert operations(reports) == operations([whole])


@dataclass(frozen=True)
class ByTenants(PerToken):
    """An update takes a second for each tenant of the plan it is asked for."""

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        return float(len(plan.tenants))


def test_an_update_costs_what_its_tenants_cost() -> None:
    deployed = plan((1, 1, 1), budget=100, tenants=TWO)
    for updates, seconds in (((0,), 1), ((0, 1), 2), (None, 2), ((), 0)):
        reports = played(Simulator(ByTenants()), deployed, undrained([1], updates=updates))
        assert reports[0].seconds == 3 + seconds


def test_without_spans_the_reports_are_otherwise_the_same() -> None:
    stream = [pipelines(3), *(undrained([size, size]) for size in (1, 2, 3)), work([4])]
    with_spans = played(Simulator(PerToken(transfer=0.25)), *stream)

    assert [replace(each, spans=()) for each in with_spans] == played(
        Simulator(PerToken(transfer=0.25), spans=False), *stream
    )
    assert not overlaps(
        sorted((span for each in with_spans for span in each.spans), key=lambda span: span[:2] + span[4:])
    )


def test_replicas_of_unlike_depth_play_slot_by_slot() -> None:
    reports = played(
        Simulator(PerToken()), plan((1, 1, 1), (1, 3, 1), budget=100), undrained([1], [1]), undrained([], [1])
    )

    assert sum(each.seconds for each in reports) == 12
    assert sum(each.busy_gpu_seconds for each in reports) == 3 + 6 * 3
