"""A comparison as an answer."""

import pytest

from experiments.report.compared import comparison

RUN = {
    "config": {"model": {"name": "toy"}, "cluster": {"name": "a100", "nodes": 2, "gpus_per_node": 8}, "steps": 2},
    "seed": 7,
    "config_hash": "abc",
    "versions": {"lobra": "0.1.0"},
    "git_commit": None,
}


def figures(gpu_seconds, reduction, **changed):
    given = {
        "gpu_seconds": gpu_seconds,
        "interval": [gpu_seconds - 1, gpu_seconds + 1],
        "step_seconds": gpu_seconds / 16,
        "reduction": reduction,
        "reduction_interval": None if reduction is None else [reduction - 0.1, reduction + 0.1],
        "padding": 0.25,
        "idle": None,
        "status": "derived",
        "plan_summaries": ["<2,1>x8"],
        "notes": [],
        "gpu_seconds_per_step": [gpu_seconds, gpu_seconds],
    }
    return given | changed


@pytest.fixture
def answer():
    policies = {
        "task_fused": figures(40.0, 0.0, status="measured"),
        "lobra": figures(30.0, 0.25, notes=["beyond the hull: extrapolated"]),
        "flex": {"failed": "no plan fits", "exit_code": 3},
    }
    return comparison({"schema": 1, "baseline": "task_fused", "policies": policies}, RUN)


def test_the_cheapest_policy_is_named_first(answer):
    assert answer.sentences[0] == "lobra takes the fewest GPU seconds: 30 a step, 25 % fewer than task_fused."
    assert any("flex failed: no plan fits" in each for each in answer.sentences)


def test_figures_have_their_intervals_and_their_number_of_batches(answer):
    spent, saved = answer.figures
    assert (spent.value, spent.low, spent.high, spent.samples) == (30.0, 29.0, 31.0, 2)
    assert (saved.value, saved.low, saved.high) == pytest.approx((25.0, 15.0, 35.0))


def test_every_policy_has_a_row_and_every_played_one_a_bar(answer):
    assert [row[0] for row in answer.sheets[0].rows] == ["task_fused", "lobra", "flex"]
    assert answer.sheets[0].rows[2][-2:] == ("failed", "no plan fits")
    assert answer.charts[0].series[0].x == ("task_fused", "lobra")


def test_it_is_as_weak_as_its_weakest_part(answer):
    assert (answer.basis, answer.extrapolated) == ("derived", True)
    assert answer.provenance["cluster"] == "2 nodes of 8 GPUs, a100"
    assert answer.provenance["seed"] == "7"
