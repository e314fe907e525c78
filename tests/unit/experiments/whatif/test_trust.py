"""Predicted against measured: what counts as an error."""

import pytest

from experiments.whatif.validate import errors_of


def test_errors_are_predicted_over_measured_and_leave_the_first_step_out():
    body = {"measured_seconds": [9.0, 2.0, 4.0], "predicted_seconds": [1.0, 2.2, 3.0]}

    assert errors_of(body).tolist() == pytest.approx([0.1, -0.25])


def test_a_run_of_one_step_is_judged_by_it():
    assert errors_of({"measured_seconds": [2.0], "predicted_seconds": [3.0]}).tolist() == pytest.approx([0.5])
