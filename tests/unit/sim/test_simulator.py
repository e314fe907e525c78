"""The backend: deployment, planning time, reports."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, ReplicaConfig, StepPlan
from lobra.protocols import Backend
from sim.simulator import Simulator
from toys import ToyCost, plan
from unit.sim.worlds import PerToken, log, pipelines, report, tokens, work

ONE = pipelines(1)  # on a cluster of 16 GPUs


def walls(simulator: Simulator, *directives: DeploymentPlan | StepPlan) -> list[tuple[float, float]]:
    return [(played.seconds, played.wait_seconds) for played in simulator.play(directives)]


def test_it_is_a_backend() -> None:
    backend: Backend = Simulator(PerToken())

    assert list(backend.play([ONE])) == []


def test_a_step_is_reported_before_the_next_directive_is_asked_for() -> None:
    made: list[int] = []

    def directives() -> Iterator[DeploymentPlan | StepPlan]:
        yield ONE
        for step in range(3):
            made.append(step)
            yield work([1], step=step)

    reports = Simulator(PerToken()).play(directives())

    assert made == []
    assert [(next(reports).step, list(made)) for _ in range(3)] == [(0, [0]), (1, [0, 1]), (2, [0, 1, 2])]


def test_all_replicas_join_the_synchronisation_which_begins_with_the_last() -> None:
    played = report(Simulator(PerToken(synchronise=2.0)), pipelines(2, 3), work([1], [], [3]))
    joined = [span for span in played.spans if span.kind == "synchronise"]

    assert [(replica, stage, -1, 18, 20) for replica in range(3) for stage in range(2)] == [
        (span.replica, span.stage, span.microbatch, span.start, span.end) for span in joined
    ]
    assert played.seconds == 20


def test_the_whole_cluster_is_billed_and_only_operations_are_busy() -> None:
    """Replicas <2,1> and <1,2>: each GPU of tp counts, each stage counts."""
    played = report(Simulator(PerToken()), plan((2, 1, 1), (1, 2, 1)), work([5], [1, 1]))

    assert played.gpus == 16
    assert played.busy_gpu_seconds == 2 * 15 + 2 * 2 * 3
    assert played.gpu_seconds == 16 * 15


def test_padding_is_computed_but_not_useful() -> None:
    half_empty = replace(tokens(3), width=8)

    played = report(Simulator(PerToken()), ONE, work([half_empty, 2]))

    assert (played.tokens, played.useful_tokens) == (10, 5)


def test_the_first_planning_is_visible_and_later_ones_hide_behind_the_step_before() -> None:
    steps = [work([2], step=0), work([1], step=1), work([5], step=2)]  # 6, 3 and 15 seconds

    assert walls(Simulator(PerToken(), planning_seconds=4), ONE, *steps) == [(10, 4), (3, 0), (16, 1)]


def test_a_wait_hides_nothing_and_the_synchronisation_does() -> None:
    simulator = Simulator(PerToken(synchronise=1.0), planning_seconds=6.0)

    assert walls(simulator, ONE, work([1], step=0), work([1], step=1)) == [(10, 6), (6, 2)]


def test_replayed_planning_times_go_with_the_steps_in_their_order() -> None:
    simulator = Simulator(PerToken(), planning_seconds=[1.0, 8.0, 2.0])

    assert walls(simulator, ONE, *(work([1], step=step) for step in range(3))) == [(4, 1), (8, 5), (3, 0)]


def test_too_few_replayed_planning_times_are_refused() -> None:
    with pytest.raises(BadInput, match="planning_seconds holds 1 values, but the stream has more steps"):
        walls(Simulator(PerToken(), planning_seconds=[1.0]), ONE, work([1]), work([1], step=1))


def test_a_wait_is_a_span_on_every_stage_before_the_step() -> None:
    played = report(Simulator(PerToken(), planning_seconds=4.0), pipelines(2), work([1]))

    assert log(played.spans, "wait", "forward", "backward") == [
        ("0.0 W-1", 0),
        ("0.1 W-1", 0),
        ("0.0 F0", 4),
        ("0.1 F0", 5),
        ("0.1 B0", 6),
        ("0.0 B0", 8),
    ]


def test_spans_count_seconds_since_the_run_began() -> None:
    played = report(Simulator(PerToken()), ONE, work([1]), work([2], step=1))

    assert log(played.spans) == [("0.0 F0", 3), ("0.0 B0", 5)]


def test_a_step_takes_the_same_seconds_whatever_happened_before() -> None:
    cost, step = ToyCost(transfer=0.1, synchronise=0.3), work([100, 90, 30])
    reports = list(Simulator(cost).play([plan((1, 4, 1)), *[replace(step, step=i) for i in range(50)]]))

    assert {reports[0].seconds} == {played.seconds for played in reports}


def test_a_plan_in_mid_stream_is_deployed_anew_and_its_planning_hides_behind_that() -> None:
    """The first deployment is free. Step 1 is planned while the second one takes 5 of its 7 planning seconds."""
    simulator = Simulator(PerToken(), planning_seconds=7.0, deploy_seconds=5.0)
    first, second = simulator.play([ONE, work([1]), pipelines(1, 2), work([1], [1], step=1)])

    assert (first.seconds, first.wait_seconds) == (10, 7)
    assert (second.seconds, second.wait_seconds) == (5 + 2 + 3, 2)
    assert log(second.spans, "deploy", "wait", "forward", "backward") == [
        ("0.0 D-1", 10),
        ("1.0 D-1", 10),
        ("0.0 W-1", 15),
        ("1.0 W-1", 15),
        ("0.0 F0", 17),
        ("1.0 F0", 17),
        ("0.0 B0", 18),
        ("1.0 B0", 18),
    ]


def test_without_spans_the_report_is_otherwise_the_same() -> None:
    steps = (ONE, work([2, 1]), work([1], step=1))
    with_spans = list(Simulator(PerToken(), planning_seconds=2).play(steps))
    without = list(Simulator(PerToken(), planning_seconds=2, spans=False).play(steps))

    assert [replace(played, spans=()) for played in with_spans] == without


def test_a_step_that_updates_some_tenants_is_played_and_synchronised() -> None:
    played = report(Simulator(PerToken(synchronise=1.0)), ONE, replace(work([1]), updates=()))

    assert played.seconds == 4


def test_sharded_weights_are_refused_by_name() -> None:
    sharded = tuple(replace(r, config=ReplicaConfig(1, 1, fsdp=2)) for r in pipelines(1, 2).replicas)

    with pytest.raises(BadInput, match="fsdp is 2"):
        report(Simulator(PerToken()), replace(pipelines(1, 2), replicas=sharded), work([1], [1]))


def test_a_step_before_any_plan_is_refused() -> None:
    with pytest.raises(BadInput, match="no plan is deployed yet"):
        list(Simulator(PerToken()).play([work([1])]))


def test_work_that_does_not_fit_its_plan_is_refused() -> None:
    with pytest.raises(BadInput, match="holds 1025 tokens, but 1024 fit"):
        report(Simulator(PerToken()), plan((1, 1, 1)), work([1025]))


def test_work_checked_before_is_not_checked_again_where_so_asked() -> None:
    assert report(Simulator(PerToken(), check=False), plan((1, 1, 1)), work([1025])).tokens == 1025


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"fidelity": "exact"}, "fidelity is 'exact'; choose pipeline or closed"),
        ({"planning_seconds": -1.0}, "planning_seconds is -1.0 seconds"),
        ({"planning_seconds": [1.0, float("nan")]}, "planning_seconds is nan seconds"),
        ({"deploy_seconds": float("inf")}, "deploy_seconds is inf seconds"),
    ],
)
def test_impossible_knobs_are_refused_at_construction(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Simulator(PerToken(), **knobs)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (PerToken(forward=-1.0), r"cost model: the forward of Shape\(.*\) on stage 0 of replica 0 is -1.0 seconds"),
        (PerToken(backward=float("nan")), "cost model: the backward of .* is nan seconds"),
        (PerToken(transfer=float("inf")), "cost model: the transfer of .* is inf seconds"),
        (PerToken(synchronise=-2.0), "cost model: the synchronisation is -2.0 seconds"),
    ],
)
def test_a_cost_model_that_answers_no_duration_is_refused(cost: PerToken, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        report(Simulator(cost), pipelines(2), work([1]))
