"""Packs: few, or even; tiles; nothing lost."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lobra.errors import BadInput
from policies.adaptive.filling import dealt, evenly
from policies.adaptive.nouns import Room, Sample
from policies.adaptive.packing import Bins, even, fewest, least_packs
from unit.policies.adaptive.worlds import samples

SAMPLES = some.lists(some.tuples(some.integers(0, 2), some.integers(1, 100)), min_size=1, max_size=30)


def of(drawn) -> list[Sample]:
    return [Sample(adapter, 0, length, number) for number, (adapter, length) in enumerate(drawn)]


def test_each_adapters_share_is_rounded_up_to_whole_tiles():
    mixed = [*samples(130), *samples(100, 100, adapter=1)]
    assert Room(1024, 128).width(mixed) == 256 + 256
    assert Room(1024).width(mixed) == 330


def test_a_share_that_only_its_tile_makes_too_wide_still_fits_alone():
    room = Room(1000, 128)
    assert room.width(samples(990)) == 1000
    assert room.width([*samples(900), *samples(90, adapter=1)]) == 1000 + 128


def test_three_thirds_fit_a_pack_of_one_adapter_and_not_of_three():
    room = Room(4096, 128)
    assert len(fewest(samples(1365, 1365, 1365), room)) == 1
    assert len(fewest([sample for a in range(3) for sample in samples(1365, adapter=a)], room)) == 2


def test_a_short_exact_search_saves_the_pack_that_best_fit_wastes():
    """Room 10: best fit puts 5 with 4, 4 with 3 and 2, and has no place for the last 2."""
    packs = fewest(samples(5, 4, 4, 3, 2, 2), Room(10))

    assert [sorted(sample.length for sample in pack) for pack in packs] == [[2, 3, 5], [2, 4, 4]]


@settings(max_examples=60, deadline=None)
@given(SAMPLES, some.sampled_from((1, 7, 16)))
def test_packs_hold_every_sample_once_and_keep_to_the_room(drawn, tile):
    room, wanted = Room(112, tile), of(drawn)

    packs = fewest(wanted, room)

    assert sorted(sample for pack in packs for sample in pack) == sorted(wanted)
    assert all(pack and room.width(pack) <= room.tokens for pack in packs)
    assert least_packs(wanted, room) <= len(packs)
    assert [room.width(pack) for pack in packs] == sorted(map(room.width, packs), reverse=True)
    for number in (len(packs), len(packs) + 2):
        if (flat := even(wanted, room, number)) is not None:
            assert len(flat) == number
            assert sorted(sample for pack in flat for sample in pack) == sorted(wanted)
            assert all(room.width(pack) <= room.tokens for pack in flat)


@settings(max_examples=40, deadline=None)
@given(some.lists(some.tuples(some.integers(0, 1), some.integers(1, 10)), min_size=1, max_size=4))
def test_the_bound_on_packs_holds_for_the_best_of_all_packings(drawn):
    room, wanted = Room(12, 4), of(drawn)

    best = min(
        len(set(places))
        for places in product(range(4), repeat=len(wanted))
        if all(room.width(part(wanted, places, pack)) <= room.tokens for pack in range(4))
    )

    assert least_packs(wanted, room) <= best == len(fewest(wanted, room))


def part(wanted: list[Sample], places: tuple[int, ...], pack: int) -> list[Sample]:
    return [sample for sample, place in zip(wanted, places, strict=True) if place == pack]


@given(SAMPLES)
def test_what_a_pack_grows_to_is_its_width_with_the_sample(drawn):
    room = Room(300, 16)
    bins = Bins(room, 3)
    for number, sample in enumerate(of(drawn)):
        grown = bins.grown(sample)
        for place, width in enumerate(grown):
            true = room.width((*bins.contents[place], sample))
            assert width == true if true <= room.tokens else width > room.tokens
        if grown[number % 3] <= room.tokens:
            bins.put(number % 3, sample, grown[number % 3])


def test_even_packs_differ_by_less_than_full_ones():
    wanted = samples(*range(5, 60, 3))
    full, flat = fewest(wanted, Room(100)), even(wanted, Room(100), len(fewest(wanted, Room(100))))
    widths = [[Room(100).width(pack) for pack in packs] for packs in (full, flat)]
    assert max(widths[1]) - min(widths[1]) < max(widths[0]) - min(widths[0])


def test_slots_have_a_pack_for_every_replica_and_one_more_is_tried_where_even_ones_do_not_fit():
    assert [len(slot) for slot in dealt([(one,) for one in samples(*range(1, 6))], 3)] == [3, 3]
    slots = evenly(samples(60, 60, 60), Room(100), 2, 2)  # two packs cannot hold them
    assert [len(pack) for slot in slots for pack in slot] == [1, 1, 1, 0]


def test_a_room_without_tokens_is_refused():
    with pytest.raises(BadInput, match="capacity 0 and tile 1 must be at least 1 token"):
        Room(0)
