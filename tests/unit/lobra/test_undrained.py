"""The rule of pipelines that nobody flushes."""

from dataclasses import replace

import pytest

from lobra.errors import BadInput
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef
from lobra.undrained import Stretch, slots
from toys import plan, tenant

TENANTS = (tenant("a"), tenant("b"))


def microbatch(owner: int, *group: int) -> MicroBatch:
    return MicroBatch(((SequenceRef(owner, 0, 8, 8),),), 8, group)


def step(*work: list[int], updates: tuple[int, ...] | None = (), drain: bool = False) -> StepPlan:
    """For each replica the tenants of its micro-batches."""
    return StepPlan(0, tuple(tuple(map(microbatch, owners)) for owners in work), updates, drain)


def admit(pp: int, *steps: StepPlan) -> None:
    stretch = Stretch(plan((1, pp, len(steps[0].work)), tenants=TENANTS))
    for each in steps:
        stretch.admit(each)


def test_a_step_plan_takes_the_slots_of_its_longest_work_and_one_at_least():
    assert [slots(step([0, 1], [0])), slots(step([], [])), slots(step([0]))] == [2, 1, 1]


@pytest.mark.parametrize("pp", [1, 2, 3, 5])
def test_a_tenant_may_come_back_behind_as_many_slots_as_there_are_further_stages(pp: int):
    between = [step([1]) for _ in range(pp - 1)]

    admit(pp, step([0], updates=(0,)), *between, step([0]))

    if pp > 1:
        with pytest.raises(BadInput, match=f"tenant 0 comes back to replica 0 1 slots before .*{pp - 1} must lie"):
            admit(pp, step([0], updates=(0,)), *between[1:], step([0]))


def test_empty_slots_count():
    admit(3, step([0], updates=(0,)), step([]), step([]), step([0]))


def test_slots_within_a_step_plan_count():
    admit(3, step([0], updates=(0,)), step([1, 1, 0]))
    with pytest.raises(BadInput, match="1 slots before"):
        admit(3, step([0], updates=(0,)), step([1, 0]))


def test_without_a_name_every_tenant_updates():
    with pytest.raises(BadInput, match="tenant 1 comes back"):
        admit(2, step([0], updates=None), step([1]))


def test_the_deepest_pipeline_decides_for_all_replicas():
    stretch = Stretch(plan((1, 1, 1), (1, 4, 1), tenants=TENANTS))
    stretch.admit(step([0], [], updates=(0,)))
    with pytest.raises(BadInput, match="replica 0 3 slots before"):
        stretch.admit(step([0], []))


def test_shared_micro_batches_are_refused():
    shared = StepPlan(0, ((microbatch(0, 0, 1),), (microbatch(0, 0, 1),)), (), drain=False)
    with pytest.raises(BadInput, match=r"shares a micro-batch with \(0, 1\) in an undrained pipeline"):
        admit(1, shared)
    with pytest.raises(BadInput, match="shares a micro-batch"):
        admit(1, replace(shared, drain=True))
