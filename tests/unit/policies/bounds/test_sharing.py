"""The bound of shared micro-batches against every dispatch to every group, by trying all of them."""

import itertools

import numpy as np
import pytest

from policies.bounds.fluid import fluid_bound
from policies.bounds.latency import latency_bound
from policies.bounds.sharing import shared_fluid, sharing_bound
from unit.policies.dispatch.worlds import loads, plain_seconds, ways

REPLICAS = 4
SLOTS = [group for size in (1, 2, 4) for group in itertools.combinations(range(REPLICAS), size)]  # overlapping, too


def random_sizes(random):
    """Loads by group size: a class that one replica may not hold, members that take a part of it and some more."""
    capacity, fixed, each = random.integers(1, 4, 2), random.uniform(0.1, 0.6, 2), random.uniform(0.3, 2.0, 2)
    if random.random() < 0.6:
        capacity[1] = 0
    floor = float(random.choice([0.0, 0.5]))
    return {
        size: loads(capacity * size + (size > 1), fixed + 0.1 * (size > 1), each / size + 0.05 * (size - 1), floor)
        for size in (1, 2, 4)
    }


def least(sizes, counts):
    """The slowest replica's busy seconds in the best of all dispatches: per bucket, then all pairs of ways."""
    of_buckets = []
    for column, count in enumerate(counts):
        one = np.eye(len(counts), dtype=int)[column]
        price = {
            (size, number): plain_seconds(kind, (one * number).tolist())
            for size, kind in sizes.items()
            for number in range(count + 1)
        }
        rows = []
        for way in ways(count, len(SLOTS)):
            busy = np.zeros(REPLICAS)
            for group, number in zip(SLOTS, way, strict=True):
                busy[list(group)] += price[len(group), number]
            rows.append(busy)
        of_buckets.append(np.array(rows))
    first, second = of_buckets
    return float(min((second + row).max(axis=1).min() for row in first))


def test_no_dispatch_to_any_groups_is_below_the_bound():
    random = np.random.default_rng(11)
    for _ in range(40):
        sizes, counts = random_sizes(random), random.integers(0, 3, 2)
        assert sharing_bound([sizes], [REPLICAS], counts) <= least(sizes, counts.tolist()) * (1 + 1e-9)


def test_the_bound_is_reached_where_sequences_can_be_shared_out_evenly():
    """Two sequences for pairs, four for single replicas: two seconds and one for each of the four."""
    sizes = {1: loads([1, 0], [0, 0], [1.0, 1.0]), 2: loads([0, 1], [0, 0], [1.0, 2.0])}
    counts = np.array([4, 2])

    assert sharing_bound([sizes], [REPLICAS], counts) == pytest.approx(3.0)
    assert least({**sizes, 4: loads([0, 0], [0, 0], [1.0, 1.0])}, counts.tolist()) == pytest.approx(3.0)


def test_without_groups_it_contains_the_fluid_and_the_latency():
    random = np.random.default_rng(5)
    for _ in range(20):
        kind, counts = random_sizes(random)[2], random.integers(1, 9, 2)
        simple = max(fluid_bound([kind], [3], counts), latency_bound([kind], [3], counts))
        assert sharing_bound([{1: kind}], [3], counts) >= simple * (1 - 1e-9)


def test_more_group_sizes_never_raise_it():
    random = np.random.default_rng(6)
    for _ in range(20):
        sizes, counts = random_sizes(random), random.integers(1, 9, 2)
        fewer = {size: kind for size, kind in sizes.items() if size != 4}
        assert sharing_bound([sizes], [4], counts) <= sharing_bound([fewer], [4], counts) * (1 + 1e-9)


def test_a_single_long_sequence_is_shared_although_that_costs_more_in_all():
    """Alone it takes 8 seconds; four together take 3 each, 12 in all, and nothing else is there to do."""
    sizes = {1: loads([1], [0], [8.0]), 4: loads([1], [0], [3.0])}

    found = shared_fluid([sizes], [4], np.array([1]))

    assert found.size.tolist() == [[4]]
    assert found.bound == pytest.approx(3.0)


def test_estimates_are_replaced_by_what_is_certain():
    kind = loads([9], [0.0], [2.0])
    certain = type(kind)(kind.capacity, kind.fixed, kind.each, 0.0, 1, None, np.array([1.5]))

    assert sharing_bound([{1: certain}], [2], np.array([4])) == pytest.approx(3.0)
