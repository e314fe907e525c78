"""The rule: how far an adapter's next batch must lie behind its last one, and where empty slots go."""

from hypothesis import given
from hypothesis import strategies as some

from policies.adaptive.nouns import Key
from policies.adaptive.rule import Places, gaps


def flow(*slots: list[Key]) -> list[frozenset[Key]]:
    return [frozenset(slot) for slot in slots]


def test_one_stage_needs_no_gap():
    assert gaps(flow([(0, 0)], [(0, 1)], [(0, 2)]), Places(1)) == [0, 0, 0]


def test_a_lone_adapter_waits_for_the_whole_pipeline():
    assert gaps(flow([(0, 0)], [(0, 0)], [(0, 1)]), Places(4)) == [0, 0, 3]


def test_others_micro_batches_fill_the_gap_and_empty_slots_only_what_is_missing():
    assert gaps(flow([(0, 0)], [(1, 0)], [(0, 1)], [(1, 1)]), Places(3)) == [0, 0, 1, 0]


def test_the_most_demanding_adapter_of_a_slot_decides():
    assert gaps(flow([(0, 0)], [(1, 0)], [(0, 1), (1, 1)]), Places(3)) == [0, 0, 2]


def test_a_batch_in_progress_may_go_on_but_an_older_one_may_not():
    assert gaps(flow([(0, 0)], [(1, 0)], [(0, 0)]), Places(5)) == [0, 0, 0]
    assert gaps(flow([(0, 1)], [(0, 0)]), Places(1)) is None


def test_a_batch_that_goes_on_still_keeps_its_distance_from_the_one_before():
    """The first slot of batch 1 came 3 behind batch 0; a later one is no nearer."""
    assert gaps(flow([(0, 0)], [(1, 0)], [(1, 0)], [(0, 1)], [(0, 1)]), Places(3)) == [0, 0, 0, 0, 0]


def test_a_window_goes_on_where_the_one_before_ended():
    places = Places(3)
    first, second = flow([(0, 0)], [(1, 0)]), flow([(0, 1)], [(1, 1)])
    for adapters in first:
        places.put(adapters, 0)

    assert gaps(second, places) == gaps([*first, *second], Places(3))[2:] == [1, 0]
    assert places.next == 2


@given(some.integers(1, 6), some.lists(some.sets(some.integers(0, 3), min_size=1), max_size=12), some.data())
def test_with_the_gaps_every_batch_keeps_its_distance_and_with_one_less_some_would_not(stages, present, data):
    """Oracle: positions of all pairs of slots, checked one by one."""
    batches = dict.fromkeys(range(4), 0)
    slots = []
    for adapters in present:
        for adapter in sorted(adapters):
            batches[adapter] += data.draw(some.integers(0, 1))
        slots.append(frozenset((adapter, batches[adapter]) for adapter in adapters))

    found = gaps(slots, Places(stages))

    assert found is not None
    assert legal(slots, found, stages)
    for place, gap in enumerate(found):
        if gap:
            assert not legal(slots, [*found[:place], gap - 1, *found[place + 1 :]], stages)


def legal(slots: list[frozenset[Key]], found: list[int], stages: int) -> bool:
    positions, position = [], -1
    for gap in found:
        position += gap + 1
        positions.append(position)
    return all(
        positions[later] - positions[earlier] >= stages
        for later in range(len(slots))
        for earlier in range(later)
        for adapter, batch in slots[later]
        for other, before in slots[earlier]
        if adapter == other and before < batch
    )
