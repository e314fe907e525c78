"""The local search: better or equal, nothing lost, limited by work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies.adaptive.flow import Entry, Judge
from policies.adaptive.improve import improved
from policies.adaptive.nouns import Sample
from unit.policies.adaptive.worlds import judge, samples


def flow(judge: Judge, *packs: list[Sample]) -> list[Entry]:
    return [judge.entry((tuple(pack),)) for pack in packs]


def lengths(found: list[Entry]) -> list[list[int]]:
    return [[sample.length for pack in entry.slot for sample in pack] for entry in found]


def test_two_slots_that_fit_together_become_one():
    one = judge(stages=1)
    found, cost = improved(flow(one, samples(40), samples(50, adapter=1)), one, work=100)

    assert (lengths(found), cost) == ([[40, 50]], (180.0, 1))


def test_batches_of_one_adapter_are_never_joined_nor_put_out_of_order():
    one = judge(stages=1)
    start = flow(one, samples(10, batch=0), samples(20, batch=1))

    assert lengths(improved(start, one, work=1000)[0]) == [[10], [20]]
    with pytest.raises(AssertionError, match="out of order"):
        improved(start[::-1], one, work=10)


def test_a_slot_moves_to_where_it_saves_an_empty_one():
    """Two stages: adapter 0 twice in a row needs an empty slot, with adapter 1 between it needs none."""
    two = judge(stages=2, tokens=10)
    start = flow(two, samples(10), samples(10, batch=1), samples(10, adapter=1))

    found, (_, slots) = improved(start, two, work=100)

    assert two.cost(start)[1] == 4
    assert slots == 3
    assert [entry.slot[0][0].adapter for entry in found] == [0, 1, 0]


def test_a_sequence_moves_out_of_the_slot_that_holds_the_pipeline_up():
    three = judge(stages=3, tokens=60)
    found, _ = improved(flow(three, samples(20, 20, 20), samples(20, adapter=1)), three, work=1000)

    assert sorted(map(sum, lengths(found))) == [40, 40]


@settings(max_examples=30, deadline=None)
@given(
    some.integers(1, 4),
    some.lists(some.tuples(some.integers(0, 2), some.integers(1, 40)), min_size=1, max_size=8),
    some.integers(0, 300),
)
def test_the_result_is_legal_complete_and_no_worse_and_more_work_does_no_harm(stages, drawn, work):
    one = judge(stages, tokens=64, tile=8)
    start = [one.entry(((Sample(adapter, 0, length, n),),)) for n, (adapter, length) in enumerate(drawn)]

    found, cost = improved(start, one, work)

    assert cost == one.cost(found) <= one.cost(start)
    assert improved(start, one, 2 * work)[1] <= cost
    assert all(one.fits(entry.slot) and any(entry.slot) for entry in found)
    inside = [sorted(sample for entry in part for pack in entry.slot for sample in pack) for part in (found, start)]
    assert inside[0] == inside[1]
