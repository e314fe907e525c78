"""The gap of two stages: bounds that hold for every plan, and sentences that say what is proven."""

import pytest

from experiments.schema import register
from experiments.study.composing import composed
from experiments.study.point import Point
from experiments.study.quality import notes, table
from experiments.study.quality_playing import judged
from experiments.study.settings import SMALL, given


def made(seconds, bounds, best=()):
    body = {"seconds": list(seconds), "plan": "<1,1>x2", "status": "derived"}
    return {"small": {"policies": {"own": body}, "bound_seconds": list(bounds), "best_seconds": list(best)}}


def test_gaps_are_steps_over_bounds():
    (row,) = table(made([1.1, 1.3], [1.0, 1.0], [1.05]))
    assert row["gap_mean"] == pytest.approx(0.2)
    assert row["gap_largest"] == pytest.approx(0.3)
    assert row["within_15"] == 0.5
    assert row["found_mean"] == pytest.approx(1.1 / 1.05 - 1)


@pytest.mark.parametrize(("largest", "word"), [(1.14, "proven for all"), (1.16, "not proven for all")])
def test_the_claim_is_proven_where_no_step_is_further_than_fifteen_per_cent(largest, word):
    assert f"({word})" in notes(made([1.0, largest], [1.0, 1.0]))[0]


def test_no_plan_undercuts_the_joint_bound_of_a_step(tmp_path):
    register()
    plans = ("1,1x6;2,1x1", "2,1x4", "4,1x2", "1,2x2;2,1x2")
    policies = {plan: given("lobra", plan, "policy.deployment.batches=1") for plan in plans}
    job = composed(Point("small", (*SMALL, "cost=roofline"), policies), 0)
    result = judged(job, tmp_path, {"tried": 1, "pool": 2})
    for name, body in result["policies"].items():
        assert "failed" not in body, name
        assert all(b <= s for b, s in zip(result["bound_seconds"], body["seconds"], strict=True))
    assert result["bound_seconds"][0] <= result["best_seconds"][0]
