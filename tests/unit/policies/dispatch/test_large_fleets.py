"""Large fleets: exchanges in pairs, sharing out anew, chunks cut to size."""

import itertools

import numpy as np
import pytest

from policies.bounds.level import level_bound
from policies.dispatch import local_search
from policies.dispatch.balanced import Balanced
from policies.dispatch.exchange import best_exchange, chunk_sizes
from policies.dispatch.fleet import Fleet
from policies.dispatch.pairs import level_out
from policies.dispatch.resplit import divisions, resplit
from policies.dispatch.rounding import round_flow, spread
from policies.dispatch.state import state_of
from policies.dispatch.tables import tables_of
from policies.dispatch.triples import share_among_three, thirds
from unit.policies.dispatch.worlds import loads, plain_seconds

WIDTHS = np.array([100, 300, 900, 2000, 4000])


def fleet_of_kinds(sizes, stages):
    """Kinds of growing room and pace; the first holds short sequences alone."""
    rooms, paces = (1000, 2000, 4000), (1.0, 0.6, 0.4)
    kinds = tuple(
        loads(room // WIDTHS, [0.05] * 5, 1e-3 * WIDTHS * pace, stages=depth)
        for room, pace, depth in zip(rooms, paces, stages, strict=True)
    )
    return Fleet(kinds, np.repeat(np.arange(3), sizes))


def dealt_badly(fleet, counts):
    """Everything on the last kind, as it comes."""
    members = np.flatnonzero(fleet.kind == 2)
    table = np.zeros((len(fleet.kind), len(counts)), int)
    for bucket, count in enumerate(counts):
        table[members, bucket] = np.bincount(np.arange(count) % 5, minlength=len(members))
    return table


@pytest.mark.parametrize("stages", [(1, 1, 1), (3, 2, 1), (1, 2, 4)])
def test_exchanges_in_pairs_keep_sequences_places_and_prices_and_lower_the_maximum(stages):
    fleet, counts = fleet_of_kinds((20, 30, 20), stages), np.array([300, 150, 60, 30, 12])
    tables = tables_of(fleet, counts)
    state = state_of(tables, fleet.kind, dealt_badly(fleet, counts))
    before = state.makespan

    level_out(state, chunk_sizes(tables, counts), tuple(np.flatnonzero(fleet.kind == kind) for kind in range(3)), 30)

    assert state.counts.sum(axis=0).tolist() == counts.tolist()
    assert state.counts.min() >= 0
    assert state.seconds == pytest.approx(
        [plain_seconds(fleet.loads[kind], row) for kind, row in zip(fleet.kind, state.counts.tolist(), strict=True)]
    )
    assert state.makespan < 0.5 * before


def test_two_machines_share_out_anew_as_well_as_can_be():
    """Two for one, where no exchange of one for one helps: 5 + 3 and 4 + 2 become 5 + 2 and 4 + 3."""
    kind = loads([1, 1, 1, 1], [0, 0, 0, 0], [5.0, 4.0, 3.0, 2.0])
    fleet, counts = Fleet((kind,), np.zeros(2, int)), np.array([1, 1, 1, 1])
    state = state_of(tables_of(fleet, counts), fleet.kind, np.array([[1, 0, 1, 0], [0, 1, 0, 1]]))

    assert resplit(state, 0, 1, divisions(), np.random.default_rng(0))
    assert state.makespan == 7
    assert not resplit(state, 0, 1, divisions(), np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(6))
def test_sharing_out_anew_finds_the_best_division_of_whole_sequences(seed):
    random = np.random.default_rng(seed)
    slow, fast = (loads([1] * 5, random.uniform(0, 0.3, 5), pace * random.uniform(1, 4, 5)) for pace in (1.0, 0.6))
    fleet, counts = Fleet((slow, fast), np.array([0, 1])), np.array([2, 1, 2, 1, 2])
    start = np.stack([counts // 2 + counts % 2, counts // 2])
    state = state_of(tables_of(fleet, counts), fleet.kind, start)
    slowest = int(state.seconds.argmax())

    resplit(state, slowest, 1 - slowest, divisions(), random)

    best = min(
        max(plain_seconds(slow, mine), plain_seconds(fast, tuple(counts - mine)))
        for mine in itertools.product(*(range(count + 1) for count in counts))
    )
    assert state.makespan == pytest.approx(best)
    assert state.counts.sum(axis=0).tolist() == counts.tolist()


def starved(machines):
    """One long sequence, or one of middle length and a short one, on each: three short ones end first together."""
    kind = loads([1, 1, 1], [0.0] * 3, [0.47, 0.62, 1.0])
    rows = [[1, 1, 0]] * (2 * machines) + [[1, 0, 1]] * machines
    counts = np.array(rows)
    return Fleet((kind,), np.zeros(len(rows), int)), counts


def test_three_machines_share_out_anew_where_no_two_can_help_each_other():
    fleet, counts = starved(1)
    state = state_of(tables_of(fleet, counts.sum(axis=0)), fleet.kind, counts)
    ways, random = divisions(), np.random.default_rng(0)

    assert not any(resplit(state, 2, other, ways, random) for other in (0, 1))
    assert share_among_three(state, 2, np.arange(3), thirds()) == (1, True)
    assert sorted(state.counts.tolist()) == [[0, 0, 1], [0, 2, 0], [3, 0, 0]]
    assert state.seconds.tolist() == pytest.approx(fleet.seconds(state.counts).tolist())
    assert share_among_three(state, int(state.seconds.argmax()), np.arange(3), thirds())[1] is False


def test_a_starved_large_fleet_is_dealt_as_well_as_can_be():
    fleet, counts = starved(24)

    dealt = Balanced().balance(fleet, counts.sum(axis=0), [counts])

    assert fleet.seconds(dealt).max() == pytest.approx(3 * 0.47)


def test_machines_that_hold_much_do_without_sharing_among_three():
    fleet = Fleet((loads([1, 1], [0.0, 0.0], [1.0, 2.0]),), np.zeros(3, int))
    state = state_of(tables_of(fleet, np.array([12, 6])), fleet.kind, np.array([[6, 2], [3, 2], [3, 2]]))

    assert share_among_three(state, 0, np.arange(3), thirds()) == (0, False)


def test_large_fleets_look_for_fewer_exchanges_than_they_are_allowed(monkeypatch):
    fleet, counts = fleet_of_kinds((40, 30, 20), (1, 1, 1)), np.array([4000, 1500, 500, 180, 50])
    looked = []
    monkeypatch.setattr(local_search, "best_exchange", lambda *found: looked.append(1) or best_exchange(*found))

    Balanced(work=100).balance(fleet, counts)

    assert 20 <= len(looked) <= 20 + 30


def test_chunks_cut_to_size_fill_machines_up_to_one_level():
    fleet = Fleet((loads([8, 1], [0.1, 0.1], [0.5, 3.0]),), np.zeros(6, int))
    counts = np.array([186, 9])
    flow = counts[None].astype(float)

    whole, cut = (
        fleet.seconds(spread(fleet, round_flow(flow, counts, fleet.fits), cut=choice)) for choice in (False, True)
    )

    assert np.ptp(cut) < np.ptp(whole)
    assert cut.max() <= whole.max()


@pytest.mark.parametrize("stages", [(1, 1, 1), (4, 2, 1)])
def test_a_large_fleet_ends_near_its_bound_and_loses_nothing(stages):
    fleet, counts = fleet_of_kinds((40, 30, 20), stages), np.array([4000, 1500, 500, 180, 50])

    dealt = Balanced(work=5).balance(fleet, counts)

    assert dealt.sum(axis=0).tolist() == counts.tolist()
    assert dealt.min() >= 0
    assert not dealt[fleet.kind == 0, 3:].any()
    assert fleet.seconds(dealt).max() <= 1.03 * level_bound(fleet.loads, fleet.sizes.tolist(), counts)
