"""Tables, state, exchanges and the search over them, held against plain formulas."""

import itertools

import numpy as np
import pytest

from policies.dispatch.exchange import apply, best_exchange, chunk_sizes
from policies.dispatch.fleet import Fleet
from policies.dispatch.local_search import improve
from policies.dispatch.state import state_of
from policies.dispatch.tables import tables_of
from unit.policies.dispatch.worlds import loads, plain_seconds, random_fleet


def fleets():
    """Fleets with floors, pipelines, a packed kind, and counts that fit them."""
    random = np.random.default_rng(5)
    plain = [(random_fleet(random, machines=4, buckets=5), random.integers(1, 12, 5)) for _ in range(6)]
    packed = loads([1 << 31] * 3, [0, 0, 0], [0.2, 0.5, 0.9], 0.0, 3, 1.7)
    return [*plain, (Fleet((packed, loads([3, 2, 1], [1, 1, 1], [0.1, 0.3, 0.5])), np.array([0, 1, 0])), [9, 4, 2])]


def dealt(fleet, counts, seed=0):
    """Counts dealt at random to machines that hold them."""
    random = np.random.default_rng(seed)
    result = np.zeros((len(fleet.kind), len(counts)), int)
    for bucket, count in enumerate(counts):
        members = np.flatnonzero(fleet.fits[fleet.kind, bucket])
        result[:, bucket] = np.bincount(random.choice(members, count), minlength=len(fleet.kind))
    return result


@pytest.mark.parametrize(("fleet", "counts"), fleets())
def test_looked_up_seconds_equal_the_exact_evaluator_and_the_plain_formula(fleet, counts):
    counts = np.array(counts)
    start = dealt(fleet, counts)

    state = state_of(tables_of(fleet, counts), fleet.kind, start)

    assert state.seconds == pytest.approx(fleet.seconds(start), rel=1e-12)
    expected = [plain_seconds(fleet.loads[kind], row) for kind, row in zip(fleet.kind, start.tolist(), strict=True)]
    assert state.seconds == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("fleet", "counts"), fleets())
def test_seconds_stay_true_through_moves_and_come_back_on_revert(fleet, counts):
    counts, random = np.array(counts), np.random.default_rng(1)
    start = dealt(fleet, counts)
    state = state_of(tables_of(fleet, counts), fleet.kind, start)
    for _ in range(20):
        giver, taker = random.choice(len(fleet.kind), 2, replace=False)
        buckets = np.flatnonzero((state.counts[giver] > 0) & fleet.fits[fleet.kind[taker]])
        if len(buckets):
            state.move(int(random.choice(buckets)), 1, int(giver), int(taker))

    assert state.seconds == pytest.approx(fleet.seconds(state.counts), rel=1e-12)
    state.revert()
    assert state.counts.tolist() == start.tolist()
    assert state.seconds == pytest.approx(fleet.seconds(start), rel=1e-12)


@pytest.mark.parametrize(("fleet", "counts"), fleets())
def test_the_exchange_found_is_the_best_of_all_by_the_exact_evaluator(fleet, counts):
    counts = np.array(counts)
    tables = tables_of(fleet, counts)
    state = state_of(tables, fleet.kind, dealt(fleet, counts, seed=3))
    slowest = int(np.argmax(state.seconds))
    others = np.delete(np.arange(len(fleet.kind)), slowest)

    found = best_exchange(state, slowest, others, chunk_sizes(tables, counts))

    least = min(_every_exchange(fleet, state.counts, slowest, others, counts))
    assert found is not None
    apply(state, slowest, found)
    assert max(state.seconds[slowest], state.seconds[found.taker]) == pytest.approx(least, rel=1e-12)


def _every_exchange(fleet, counts, slowest, others, totals):
    """What every exchange of chunks of sizes 1, 2, 3, any capacity, the overhang and all comes to."""

    def chunks(machine, bucket):
        held, capacity = counts[machine, bucket], max(1, fleet.loads[fleet.kind[machine]].capacity[bucket])
        sizes = {1, 2, 3, held, held % capacity if held > capacity else held}
        sizes |= {int(kind.capacity[bucket]) for kind in fleet.loads}
        return [size for size in sizes if 0 < size <= held and (size != held or held > 3 or size in {1, 2, 3})]

    buckets = range(len(totals))
    for other, bucket in itertools.product(others, buckets):
        for size in chunks(slowest, bucket):
            returned = [(0, 0), *((b, s) for b in buckets if b != bucket for s in chunks(other, b))]
            for back, amount in returned:
                after = counts.copy()
                after[[slowest, other], bucket] += [-size, size]
                after[[slowest, other], back] += [amount, -amount]
                yield fleet.seconds(after)[[slowest, other]].max()


def test_no_exchange_is_found_where_none_is_a_gain():
    fleet = Fleet((loads([4], [0], [1.0]),), np.zeros(2, int))
    counts = np.array([6])
    tables = tables_of(fleet, counts)
    state = state_of(tables, fleet.kind, np.array([[3], [3]]))

    assert best_exchange(state, 0, np.array([1]), chunk_sizes(tables, counts)) is None


def test_full_micro_batches_and_a_remainder_cost_a_longer_bubble_than_even_ones():
    fleet = Fleet((loads([4], [1.0], [1.0], 0.0, 3),), np.zeros(1, int))
    counts = np.array([5])

    even = state_of(tables_of(fleet, counts), fleet.kind, counts[None])
    full = state_of(tables_of(fleet, counts, "full"), fleet.kind, counts[None])

    assert even.seconds.tolist() == [4 + 3 + 2 * 4]  # 3 and 2 sequences
    assert full.seconds.tolist() == [5 + 2 + 2 * 5]  # 4 and 1


def test_more_work_is_never_worse_and_the_same_seed_gives_the_same_dispatch():
    random = np.random.default_rng(2)
    fleet, counts = random_fleet(random, machines=5, buckets=6), random.integers(5, 40, 6)
    makespans = []
    for work in (0, 50, 200, 200):
        state = state_of(tables_of(fleet, counts), fleet.kind, dealt(fleet, counts))
        improve(state, counts, 0.0, work, seed=9)
        makespans.append(state.makespan)
        assert state.counts.sum(axis=0).tolist() == counts.tolist()

    assert makespans[0] >= makespans[1] >= makespans[2] == makespans[3]
