"""The planner's prices of a plan's micro-batches beside the simulator's."""

import numpy as np
import pytest

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from experiments.planning_case import Played
from experiments.planning_views import view_lines, view_rows
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef

COST = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8))
PLAN = toys.plan((8, 1, 1), (1, 4, 1), (1, 1, 1))


def microbatch(rows: int, width: int) -> MicroBatch:
    return MicroBatch(tuple((SequenceRef(0, number, width, width),) for number in range(rows)), width)


def played(*work: tuple[MicroBatch, ...]) -> Played:
    return Played((StepPlan(0, work),), np.ones((1, len(work))), 0.0)


def test_every_kind_with_work_has_its_differences():
    small, large = microbatch(1, 128), microbatch(8, 2048)
    rows = view_rows(PLAN, played((), (large,), (small, large, large)), COST)

    assert [(row["replicas"], row["micro_batches"]) for row in rows] == [("<1,1>", 3), ("<1,4>", 1)]
    replica, apart = PLAN.replicas[2], []
    for each in (small, large, large):
        pack, shape = COST.rates(replica.config, np.array([128])).pack, each.shape
        planned = pack.fixed + pack.run + pack.token * shape.tokens + pack.square * shape.squares
        apart.append(planned / sum(COST.stage_seconds(replica, 0, shape, way) for way in ("forward", "backward")) - 1)
    assert rows[0]["mean"] == pytest.approx(np.mean(np.abs(apart)))
    assert rows[0]["largest"] == pytest.approx(np.max(np.abs(apart)))
    assert 0 < abs(rows[0]["sum"]) < rows[0]["largest"] < 0.1


def test_of_a_pipeline_the_stage_with_the_head_counts():
    rows = view_rows(PLAN, played((), (microbatch(2, 1024),), ()), COST)

    assert rows[0]["largest"] < 0.04  # eight layers and 0.65 of one; without it both would differ by 8 %


@pytest.mark.parametrize("form", ["floor", "paper"])
def test_a_cost_model_with_one_view_has_none_to_tell(form):
    one = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8), form=form)
    rows = view_rows(PLAN, played((microbatch(2, 4096),), (), (microbatch(4, 512),)), one)

    assert rows == []
    assert view_lines(rows) == []


def test_people_are_told_in_one_line():
    lines = view_lines([{"replicas": "<1,1>", "micro_batches": 3, "mean": 0.01, "largest": 0.03, "sum": -0.002}])

    assert lines == [
        "planner's prices against the simulator's: <1,1> 1.0% on average, 3.0% at most, -0.2% in all (3 micro-batches)"
    ]
