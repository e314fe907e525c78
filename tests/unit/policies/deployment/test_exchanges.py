"""Exchanges: prices of replicas are what a linear program says, and the best neighbour comes first."""

import numpy as np
import pytest

from lobra.plan import ReplicaConfig
from policies.deployment.exchanges import _values, _worth, exchanges
from policies.deployment.placement import Kind
from policies.deployment.tau import Fluid, fluid_seconds
from unit.policies.deployment.instances import EXACT, every_plan, one_node, prices_of, random_instance


def served(prices, cluster, amounts):
    plans = every_plan(prices, cluster, 1)
    return [counts for counts in plans if np.isfinite(fluid_seconds(prices, counts, amounts))]


@pytest.mark.parametrize("seed", range(8))
def test_a_class_is_worth_what_more_of_it_adds_to_the_fluid_time(seed):
    prices, amounts, cluster, _ = random_instance(seed)
    counts = served(prices, cluster, amounts)[-1]
    before = fluid_seconds(prices, counts, amounts)

    values = _values(prices, counts, amounts)

    for column in range(len(amounts)):
        grown = amounts.copy()
        grown[column] += 1e-3
        assert fluid_seconds(prices, counts, grown) - before == pytest.approx(values[column] * 1e-3, abs=1e-5)


def test_the_exchange_that_helps_most_comes_first():
    kinds = [Kind(ReplicaConfig(1, 1), 10), Kind(ReplicaConfig(2, 1), 20)]
    fluid = Fluid(prices_of([[1.0, np.inf], [1.0, 1.0]], kinds), one_node(8), 20, EXACT)
    by_batch = np.array([[60.0, 4.0]])

    near = list(exchanges(fluid, (2, 3), by_batch, np.inf))

    assert near[0] == (4, 2)  # many short sequences: two small replicas are worth more than a large one
    times = [fluid_seconds(fluid.prices, counts, by_batch[0]) for counts in near]
    assert times[0] == min(times)


def test_neighbours_hold_the_longest_sequence_and_may_still_win():
    kinds = [Kind(ReplicaConfig(1, 1), 10), Kind(ReplicaConfig(2, 1), 20)]
    fluid = Fluid(prices_of([[1.0], [1.0]], kinds), one_node(4), 20, EXACT)

    assert list(exchanges(fluid, (2, 1), np.array([[12.0]]), np.inf)) == [(0, 2)]
    assert list(exchanges(fluid, (2, 1), np.array([[12.0]]), 4.0)) == []


def test_replicas_that_share_weights_are_exchanged_together():
    kinds = [Kind(ReplicaConfig(1, 1, fsdp=2), 20), Kind(ReplicaConfig(1, 1), 10)]
    fluid = Fluid(prices_of([[1.0], [1.1]], kinds), one_node(6), 10, EXACT)

    near = set(exchanges(fluid, (2, 4), np.array([[12.0]]), np.inf))

    assert near == {(0, 6), (4, 2)}
    assert np.all(_worth(fluid, (2, 4), np.array([[12.0]])) > 0)
