"""Every sequence exactly once, however the batches are cut and mixed."""

import pytest

from lobra.batch import Batch
from lobra.errors import BadInput
from lobra.owed import Owed
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef
from toys import batch


def part(number: int, *sequences: SequenceRef, drain: bool = False, group: tuple[int, ...] = ()) -> StepPlan:
    microbatch = MicroBatch((sequences,), sum(ref.length for ref in sequences), group) if sequences else None
    work = (microbatch,) if microbatch is not None else ()
    return StepPlan(number, (work,) * max(1, len(group)), drain=drain)


def owed(*batches: Batch) -> Owed:
    account = Owed()
    for each in batches:
        account.draw(each)
    return account


def refs(step: int, *lengths: int) -> tuple[Batch, list[SequenceRef]]:
    drawn = batch(*lengths, step=step)
    return drawn, drawn.refs()


def test_a_batch_may_be_spread_over_parts_and_mixed_with_the_next():
    (first, (a, b)), (second, (c, d)) = refs(0, 3, 4), refs(1, 5, 6)
    account = owed(first, second)

    for each in (part(0, a), part(0, b, c), part(1, d)):
        account.train(each)

    account.settle()


def test_a_flush_leaves_nothing_of_its_batch_behind_but_may_of_later_ones():
    (first, (a, b)), (second, (c,)) = refs(0, 3, 4), refs(1, 5)
    account = owed(first, second)
    account.train(part(0, a, b, drain=True))
    account.train(part(1, c, drain=True))

    forgetful = owed(first, second)
    with pytest.raises(BadInput, match="step 0: 1 sequences lost, 0 too many"):
        forgetful.train(part(0, a, drain=True))


def test_what_is_trained_twice_or_was_never_drawn_is_refused():
    first, (a, b) = refs(0, 3, 4)
    for extra in (a, SequenceRef(0, 7, 9, 9)):
        account = owed(first)
        account.train(part(0, a, b))
        with pytest.raises(BadInput, match="step 0: 0 sequences lost, 1 too many"):
            account.train(part(0, extra))


def test_a_changed_sequence_is_lost_and_too_many():
    first, (a, b) = refs(0, 3, 4)
    with pytest.raises(BadInput, match="1 sequences lost, 1 too many"):
        owed(first).train(part(0, a, b._replace(length=2), drain=True))


def test_what_is_left_at_the_end_is_lost():
    first, (a, _) = refs(0, 3, 4)
    account = owed(first)
    account.train(part(0, a))
    with pytest.raises(BadInput, match="1 sequences lost"):
        account.settle()


def test_a_shared_micro_batch_counts_once():
    first, sequences = refs(0, 3, 4)
    account = owed(first)
    account.train(part(0, *sequences, group=(0, 1), drain=True))
    account.settle()


def test_equal_sequences_of_two_batches_are_two():
    (first, (a,)), (second, (same,)) = refs(0, 3), refs(1, 3)
    assert a == same
    account = owed(first, second)
    account.train(part(0, a))
    account.train(part(1, same, drain=True))
    with pytest.raises(BadInput, match="too many"):
        account.train(part(1, a))
