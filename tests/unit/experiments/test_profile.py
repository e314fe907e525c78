"""What a profile plays, and what is read out of its reports."""

from collections import Counter

import pytest

import toys
from experiments.profile import rows_of
from experiments.profile_plan import COPIES, points_of, profile_plan, shapes
from lobra.check import check_step
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.trace import Span, StepReport

TENANTS = tuple(toys.tenant(name) for name in "abc")
CLUSTER = toys.cluster(1, 4)
MICRO = shapes([(1, 16), (2, 16), (4, 16), (2, 64), (9, 999)], [[30, 20, 14]], 3, largest=512)


def planned(tps=(1, 2), recomputes=(0, 2), repeats=2):
    points = points_of(MICRO, tps, recomputes, CLUSTER.gpus)
    return profile_plan(points, toys.MODEL, CLUSTER, TENANTS, repeats)


def test_micro_batches_are_padded_with_one_adapter_and_with_all_and_packed():
    assert [(len(body), width, tenants) for body, width, tenants in MICRO] == [
        (1, 16, 1), (2, 16, 1), (4, 16, 1), (2, 64, 1), (4, 16, 3), (2, 64, 2), (1, 64, 3),
    ]  # fmt: skip


def test_every_step_can_be_played_under_its_deployment():
    plan, deployed = planned(), None
    for directive in plan.directives:
        if isinstance(directive, DeploymentPlan):
            deployed = directive
        else:
            check_step(deployed, directive)
    configs = [str(d.replicas[0].config) for d in plan.directives if isinstance(d, DeploymentPlan)]
    assert configs == ["<1,1>", "<1,1,r2>", "<2,1>", "<2,1,r2>"]


def test_every_point_is_played_once_to_warm_up_and_then_as_often_as_asked():
    plan = planned()
    assert set(Counter(plan.points).values()) == {3}
    assert {plan.rounds[number] for number in plan.counted} == {0}
    assert len(plan.counted) == sum(not point.crowded for point in set(plan.points))


def test_alone_means_one_replica_and_crowded_all_of_them():
    steps = [directive for directive in planned().directives if isinstance(directive, StepPlan)]
    for step, point in zip(steps, planned().points, strict=True):
        busy = sum(bool(work) for work in step.work)
        assert busy == (4 // point.tp if point.crowded else 1)


def test_a_point_is_played_in_a_row_where_it_is_timed_with_sequences_of_its_own():
    plan = planned()
    steps = [directive for directive in plan.directives if isinstance(directive, StepPlan)]
    for step, number in zip(steps, plan.rounds, strict=True):
        assert {len(work) for work in step.work if work} == {COPIES if number else 1}
    refs = [ref for step in steps for work in step.work for each in work for row in each.rows for ref in row]
    assert len({(ref.tenant, ref.index) for ref in refs}) == len(refs)


def test_adapters_share_the_sequences_evenly_and_in_order():
    plan = planned()
    steps = [directive for directive in plan.directives if isinstance(directive, StepPlan)]
    for step, point in zip(steps, plan.points, strict=True):
        tenants = [sequence.tenant for row in step.work[0][0].rows for sequence in row]
        assert tenants == sorted(tenants)
        assert len(set(tenants)) == point.tenants == step.work[0][0].shape.runs


def test_rows_hold_the_last_copy_the_mean_of_all_replicas_and_what_the_step_took_beyond_the_slowest():
    plan = planned(tps=(2,), recomputes=(0,))
    reports = [
        StepReport(
            number, 5.0, 4, 0.0, 1, 1,
            tuple(
                Span(replica, 0, copy, kind, 0.0, seconds * (1 + replica) + 0.1 * (COPIES - 1 - copy))
                for replica in range(2 if point.crowded else 1)
                for copy in range(COPIES)
                for kind, seconds in (("forward", 0.5), ("backward", 0.7))
            ),
            wait_seconds=0.1,
            peak_gib=(number + 1) / 2**30 if number in plan.counted else None,
        )
        for number, point in enumerate(plan.points)
    ]  # fmt: skip
    rows = rows_of(plan, reports)

    assert len(rows) == 2 * len(set(plan.points))
    for row in rows:
        share = 1.5 if row["crowded"] else 1.0
        assert (row["forward_seconds"], row["backward_seconds"]) == pytest.approx((0.5 * share, 0.7 * share))
        assert row["rest_seconds"] == pytest.approx(5.0 - 0.1 - COPIES * 1.2 * (2 if row["crowded"] else 1))
    assert [row["saved_bytes"] for row in rows[:3]] == [1, 2, 3]


def test_rows_tell_how_long_their_deployment_took_where_it_was_one_in_mid_stream():
    plan = planned(tps=(1, 2), recomputes=(0,))
    begins = next(number for number, point in enumerate(plan.points) if point.tp == 2)
    reports = [
        StepReport(
            number, 5.0, 4, 0.0, 1, 1,
            (
                *(Span(replica, 0, -1, "deploy", 0.0, 0.5 + replica) for replica in (0, 1) if number == begins),
                Span(0, 0, COPIES - 1, "forward", 2.0, 3.0), Span(0, 0, COPIES - 1, "backward", 3.0, 4.0),
            ),
        )
        for number, point in enumerate(plan.points)
    ]  # fmt: skip
    assert {(row["tp"], row["deploy_seconds"]) for row in rows_of(plan, reports)} == {(1, 0.0), (2, 1.5)}


def test_what_cannot_be_profiled_is_refused():
    with pytest.raises(BadInput, match="repeats is 1"):
        planned(repeats=1)
    with pytest.raises(BadInput, match=r"grid\.tp: 8 ranks are needed, but the cluster has 4"):
        planned(tps=(8,))
    with pytest.raises(BadInput, match="no micro-batch is small enough"):
        points_of(shapes([(9, 99)], [], 1, largest=10), [1], [0], 4)
