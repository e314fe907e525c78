"""Failures and spot: closed forms against played fleets, joint against separate, spot against on demand."""

import math
from dataclasses import replace

import pytest

from capacity_worlds import arrival, oracle
from experiments.capacity.admission import Admission
from experiments.capacity.breaking import blast, blast_separate, expected_seconds, young_seconds
from experiments.capacity.composing import bill_of, fleet_of, jobs_of
from experiments.capacity.deciding import Decider
from experiments.capacity.reliability import SHIPPED_GPU_HOURS, Terms, apart, node_mean_seconds, nodes_of, radius
from experiments.capacity.spot import break_even, expected, factor
from lobra.errors import BadInput
from sim.fleet.asking import all_at_once
from sim.fleet.fleet import Fleet
from sim.fleet.nouns import Job, Split, StepTime, Verdict
from toys import cluster

SPOT = Terms(node_mean_seconds=7200, checkpoint_seconds=5, restart_seconds=120)
HOURLY = Terms(node_mean_seconds=16 * 3600, checkpoint_seconds=10, restart_seconds=60, interval_seconds=600)


def stay(now, running, jobs, cause):
    del now, running, jobs, cause
    return Verdict("one", moved=False)


def second(*_):
    return StepTime((1.0,), Split(useful=1.0))


def tenants(count, steps):
    return [Job(f"t{number}", 0.0, steps, 100.0) for number in range(count)]


def joint(terms, count, steps, nodes=8, seed=0):
    fragile = terms.fragile(range(nodes), seed)
    return Fleet(8 * nodes, second, all_at_once, stay, seed=seed, fragile=fragile).play(tenants(count, steps))


def test_two_hours_and_five_seconds_are_a_checkpoint_every_four_and_a_half_minutes():
    assert young_seconds(SPOT.breaking(1)) / 60 == pytest.approx(4.5, rel=0.01)
    assert SPOT.interval(1) == pytest.approx(4.4 * 60, rel=0.01)  # the higher order form
    assert SPOT.interval(8) < SPOT.interval(1) / 2  # a job on 8 nodes


def test_sixty_four_gpus_run_33_days_between_failures():
    node = node_mean_seconds(SHIPPED_GPU_HOURS, 8)

    assert nodes_of(cluster(nodes=8)) == tuple(range(8))
    assert Terms(node, 5, 60).breaking(8).mean_seconds / 86_400 == pytest.approx(33, rel=0.01)


def test_a_played_fleet_takes_the_expected_time_on_one_node_and_on_eight():
    """Two million seconds of work, 277 to 2,200 losses: within 1 %."""
    for nodes in (1, 8):
        terms = replace(SPOT, node_mean_seconds=8 * 7200 / nodes)
        history = joint(terms, 1, 2_000_000, nodes, seed=nodes)

        assert history.seconds == pytest.approx(
            expected_seconds(terms.breaking(nodes), 2_000_000, terms.interval(nodes)), rel=0.01
        )


def test_joint_training_loses_everybodys_work_at_every_loss_and_separate_jobs_their_own():
    """16 tenants on 64 GPUs of 8 nodes, about 500 losses: means within 10 % of the closed forms."""
    together = radius(joint(HOURLY, 16, 3_600_000).losses)
    histories = apart(tenants(16, 3_600_000), 64, 8, second, terms=HOURLY, seed=0)
    separate = radius([loss for history in histories.values() for loss in history.losses])

    assert together is not None
    assert separate is not None
    assert (together.tenants, separate.tenants) == (16, pytest.approx(2, abs=0.1))  # two share a node
    whole, single = HOURLY.breaking(8), HOURLY.breaking(1)
    assert together.gpu_seconds == pytest.approx(blast(whole, 16, 64, 600).gpu_seconds, rel=0.1)
    assert separate.gpu_seconds == pytest.approx(blast_separate(whole, 16, 64, 600).gpu_seconds, rel=0.1)
    assert together.gpu_seconds / separate.gpu_seconds == pytest.approx(8, rel=0.15)
    assert single.mean_seconds == 8 * whole.mean_seconds


def test_without_a_loss_there_is_no_radius():
    assert radius(()) is None


def test_more_tenants_than_gpus_cannot_be_apart():
    with pytest.raises(BadInput, match="3 tenants on 2 GPUs"):
        apart(tenants(3, 1), 2, 8, second, terms=HOURLY, seed=0)


def test_lost_gpu_seconds_are_on_the_bill_and_the_bill_adds_up():
    team = (arrival("long-0", "long", 0.0, 3000), arrival("short-0", "short", 0.0, 2000))
    small = oracle(*team)
    terms = Terms(60, 1, 5)
    fleet = fleet_of(
        small, Admission(small), Decider(small, "never", lambda *_: 0.0), fragile=terms.fragile((0,), seed=0)
    )
    history = fleet.play(jobs_of(team, small.world.workload))
    bill = bill_of(history, small)

    assert history.losses
    assert history.split.failed > sum(loss.gpu_seconds for loss in history.losses) > 0
    assert bill.total == pytest.approx(8 * history.seconds, rel=1e-9)
    assert math.fsum([bill.idle, *(share for _, share in bill.shares)]) == pytest.approx(bill.total, rel=1e-9)
    assert bill.idle == 0


def test_spot_at_less_than_half_price_saves_until_nodes_are_lost_too_often():
    """0.40 of the price: even at the break-even rate of losses, computed and played, both bills are the same."""
    found = expected(SPOT, 1, work_gpu_seconds=8 * 3600 * 100, step_seconds=1.0, spot=2.46, on_demand=6.155)

    assert found.on_demand == pytest.approx(8 * 100 * 6.155)
    assert 0.5 < found.saves < 1 - 2.46 / 6.155
    assert found.break_even_seconds is not None
    assert found.break_even_seconds < 7200
    at_even = replace(SPOT, node_mean_seconds=found.break_even_seconds)
    history = joint(at_even, 1, 200_000, nodes=1, seed=5)
    assert history.seconds / 200_000 * 2.46 == pytest.approx(6.155, rel=0.05)


def test_a_notice_long_enough_for_a_checkpoint_makes_losses_cheaper_and_is_met_by_the_fleet():
    noticed = replace(SPOT, notice_seconds=30.0)
    history = joint(noticed, 1, 2_000_000, nodes=1, seed=2)

    assert factor(noticed, 1, 1.0) < factor(SPOT, 1, 1.0)
    assert history.seconds / 2_000_000 == pytest.approx(factor(noticed, 1, 1.0), rel=0.005)
    assert factor(replace(SPOT, notice_seconds=4.0), 1, 1.0) == factor(SPOT, 1, 1.0)  # too short for 5 s


def test_spot_that_is_dearer_never_pays_and_prices_of_nothing_are_refused():
    assert break_even(SPOT, 1, 1.0, price_ratio=1.1) is None
    with pytest.raises(BadInput, match="prices are 0"):
        expected(SPOT, 1, work_gpu_seconds=1.0, step_seconds=1.0, spot=0.0, on_demand=1.0)
