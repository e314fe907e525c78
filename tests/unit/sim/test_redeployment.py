"""A re-deployment in mid-stream costs in the simulator what the planner counted."""

import pytest

from costmodel.moving import Moving, move_seconds
from lobra.errors import BadInput
from sim.simulator import Simulator
from toys import plan
from unit.sim.worlds import PerToken, log, work

BEFORE, AFTER = plan((8, 1, 1)), plan((4, 1, 4))


def played(moving, *plans):
    stream = [each for one in plans for each in (one, work(*[[8]] * len(one.replicas)))]
    return list(Simulator(PerToken(), deploy_seconds=moving).play(stream))


@pytest.mark.parametrize("fixed", [0.0, 30.0])
def test_the_simulator_takes_the_same_seconds_as_the_planner_counts(fixed):
    moving = Moving(fixed)
    first, second = played(moving, BEFORE, AFTER)
    quiet = played(0.0, BEFORE, AFTER)[1]
    assert move_seconds(BEFORE, AFTER) > 0
    assert second.seconds - quiet.seconds == pytest.approx(moving(BEFORE, AFTER), abs=1e-12)
    spans = [span for span in second.spans if span.kind == "deploy"]
    assert len(spans) == len(AFTER.replicas)
    assert [span.end - span.start for span in spans] == pytest.approx([moving(BEFORE, AFTER)] * len(spans))
    assert log(first.spans, "deploy") == []


def test_a_plan_that_moves_nothing_is_deployed_for_nothing():
    first, second = played(Moving(30.0), BEFORE, BEFORE)
    assert second.seconds == first.seconds


def test_a_price_that_is_no_duration_is_refused():
    with pytest.raises(BadInput, match="deploy_seconds is nan seconds"):
        played(lambda *_: float("nan"), BEFORE, AFTER)
