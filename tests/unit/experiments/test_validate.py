"""Prediction beside measurement."""

from types import SimpleNamespace

import pytest

from experiments.validate import summary
from lobra.trace import StepReport

SAMPLES = SimpleNamespace(noise=0.03, place={"hardware": "a core"}, warnings=("busy",))


def reports(*seconds: float, wait: float = 0.0) -> list[StepReport]:
    return [StepReport(number, each, 4, 0.0, 1, 1, wait_seconds=wait) for number, each in enumerate(seconds)]


def test_errors_are_relative_to_the_median_of_the_plays_and_leave_the_first_step_out():
    body = summary(
        reports(9.0, 1.0, 2.0), reports(1.0, 1.2, 2.0), [reports(9.0, 1.0, 4.0), reports(9.0, 1.0, 2.0)], SAMPLES
    )
    assert body["ratio"] == pytest.approx(3.2 / 3.0)
    assert body["mean_error"] == pytest.approx(0.1)
    assert body["largest_error"] == pytest.approx(0.2)
    assert body["first_error"] == pytest.approx(8 / 9)
    assert body["ratio_with_first"] == pytest.approx(4.2 / 12.0)


def test_the_noise_is_how_far_plays_of_a_step_are_apart():
    body = summary(reports(5.0, 1.0, 2.0), reports(1.0, 1.0, 2.0), [reports(1.0, 1.0, 3.0)], SAMPLES)
    assert body["step_noise"] == pytest.approx((0 + 1 / 2.5) / 2)
    assert body["profile_noise"] == 0.03
    assert summary(reports(1.0), reports(1.0), [], SAMPLES)["step_noise"] is None


def test_planning_that_was_not_hidden_is_no_part_of_the_comparison():
    body = summary(reports(1.5, 1.5, wait=0.5), reports(1.0, 1.0), [], SAMPLES)
    assert body["measured_seconds"] == [1.0, 1.0]
    assert body["ratio"] == 1.0
