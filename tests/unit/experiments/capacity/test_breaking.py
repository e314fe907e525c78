"""Failures in closed form, against hand arithmetic and a plain simulation."""

import numpy as np
import pytest

from experiments.capacity.breaking import (
    Blast,
    Breaking,
    blast,
    blast_separate,
    daly_seconds,
    expected_seconds,
    young_seconds,
)

SPOT = Breaking(node_mean_seconds=7200, nodes=1, checkpoint_seconds=5, restart_seconds=30)


def test_a_job_on_eight_nodes_fails_eight_times_as_often():
    assert Breaking(8e5, 8, 5).mean_seconds == 1e5


def test_a_two_hour_spot_node_with_five_second_checkpoints_saves_every_four_and_a_half_minutes():
    assert young_seconds(SPOT) / 60 == pytest.approx(4.47, abs=0.01)
    assert daly_seconds(SPOT) / 60 == pytest.approx(4.4, abs=0.1)


def test_one_failure_in_50677_gpu_hours_is_one_in_33_days_on_64_gpus():
    assert Breaking(50_677 * 3600 / 8, 8, 5).mean_seconds / 86_400 == pytest.approx(33, abs=0.05)


def test_the_best_interval_is_dalys():
    intervals = np.linspace(100, 600, 501)
    costs = [expected_seconds(SPOT, 1e6, float(each)) for each in intervals]

    assert daly_seconds(SPOT) == pytest.approx(intervals[int(np.argmin(costs))], abs=2)


def test_the_expected_time_is_that_of_many_simulated_runs():
    rng = np.random.default_rng(0)
    breaking, interval, pieces = Breaking(1000, 1, 20, 50), 300.0, 4000
    clock = 0.0
    for _ in range(pieces):
        need = interval + breaking.checkpoint_seconds
        while (fails := rng.exponential(breaking.mean_seconds)) < need:
            clock += fails
            need = interval + breaking.checkpoint_seconds + breaking.restart_seconds  # a restart may fail as well
        clock += need

    # the closed form pays the restart as a factor e^(R/M), the runs once a failure: equal to first order in R/M
    assert clock == pytest.approx(expected_seconds(breaking, pieces * interval, interval), rel=0.05)


def test_joint_training_loses_everybodys_work_and_separate_jobs_their_own():
    eight = Breaking(8e5, 8, 5, restart_seconds=20)

    assert blast(eight, tenants=16, gpus=64, interval_seconds=200) == Blast(16, 64 * 120)
    assert blast_separate(eight, tenants=16, gpus=64, interval_seconds=200) == Blast(2, 8 * 120)
    assert blast_separate(eight, tenants=4, gpus=64, interval_seconds=200) == Blast(1, 16 * 120)
