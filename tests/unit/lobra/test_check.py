"""Step plans are legal for their deployment, and train every sequence exactly once."""

import pytest

from lobra.check import check_conserved, check_step
from lobra.errors import BadInput
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef
from toys import batch, plan

SHORT = MicroBatch(((SequenceRef(0, 0, 100, 100),),), 100)
OTHER = MicroBatch(((SequenceRef(0, 1, 50, 50),),), 50)


def shared(*group: int) -> MicroBatch:
    return MicroBatch(SHORT.rows, SHORT.width, group)


def test_work_for_every_replica_that_fits_is_legal():
    check_step(plan((1, 1, 2)), StepPlan(0, ((SHORT,), ())))
    check_conserved(batch(100), StepPlan(0, ((SHORT,), ())))


def test_work_for_another_number_of_replicas_is_refused():
    with pytest.raises(BadInput, match="work for 1 replicas, but the plan has 2"):
        check_step(plan((1, 1, 2)), StepPlan(0, ((SHORT,),)))


def test_a_micro_batch_that_does_not_fit_is_refused_with_what_fits():
    with pytest.raises(BadInput, match="holds 100 tokens, but 64 fit"):
        check_step(plan((1, 1, 1), budget=64), StepPlan(0, ((SHORT,),)))


def test_a_group_brings_the_room_of_all_its_members():
    both = shared(0, 1)

    check_step(plan((1, 1, 2), budget=64), StepPlan(0, ((both,), (both,))))
    check_conserved(batch(100), StepPlan(0, ((both,), (both,))))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (((shared(0, 1),), ()), "do not hold the same"),
        (((OTHER, shared(0, 1)), (shared(0, 1),)), "after an unshared one"),
        (((shared(1, 2),), (shared(1, 2),)), "replica 0 holds a micro-batch of group"),
    ],
)
def test_members_of_a_group_must_agree(work: tuple[tuple[MicroBatch, ...], ...], message: str):
    with pytest.raises(BadInput, match=message):
        check_step(plan((1, 1, 2)), StepPlan(0, work))


def test_unequal_replicas_cannot_share():
    with pytest.raises(BadInput, match="unequal replicas"):
        check_step(plan((1, 1, 1), (2, 1, 1)), StepPlan(0, ((shared(0, 1),), (shared(0, 1),))))


def test_updates_name_tenants_of_the_plan():
    with pytest.raises(BadInput, match="updates"):
        check_step(plan((1, 1, 1)), StepPlan(0, ((SHORT,),), updates=(1,)))


@pytest.mark.parametrize("work", [((),), ((SHORT, SHORT),), ((OTHER,),)])
def test_a_lost_duplicated_or_foreign_sequence_is_noticed(work: tuple[tuple[MicroBatch, ...], ...]):
    with pytest.raises(BadInput, match="sequences lost"):
        check_conserved(batch(100), StepPlan(0, work))
