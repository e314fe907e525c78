"""The tau-MILP against an exhaustive search whose every plan is a linear program of its own."""

from dataclasses import replace

import numpy as np
import pytest

import toys
from lobra.plan import ReplicaConfig
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.classes import Classes, awkward_seconds, classes_of, table, undominated
from policies.deployment.placement import Kind
from policies.deployment.tau import Fluid, deploy, fluid_seconds, ideal_seconds
from unit.policies.deployment.instances import (
    EXACT,
    every_plan,
    least_seconds,
    one_node,
    prices_of,
    random_instance,
    small_instance,
)

WIDE = 200  # small random instances: three kinds, two classes, 4 to 6 GPUs
MARGIN = 1e-5  # relative, of a bound: what solvers tolerate, over a tau of a quarter at the least


@pytest.mark.parametrize("seed", range(12))
def test_it_equals_the_best_of_all_plans(seed):
    prices, amounts, cluster, longest = random_instance(seed)
    no_bubbles = np.zeros(len(prices.kinds))
    best = min(least_seconds(prices, counts, amounts, no_bubbles) for counts in every_plan(prices, cluster, longest))

    outcome = deploy(Fluid(prices, cluster, longest, EXACT), amounts)

    assert least_seconds(prices, outcome.counts, amounts, no_bubbles) == pytest.approx(best, rel=1e-6)
    assert outcome.bound_seconds == pytest.approx(best, rel=MARGIN)
    assert outcome.bound_seconds <= best
    assert outcome.status == "optimal"
    assert outcome.solver.startswith("HiGHS")


def test_it_equals_the_best_of_all_plans_in_all_of_many_small_instances():
    for seed in range(WIDE):
        prices, amounts, cluster, longest = small_instance(seed)
        best = min(
            least_seconds(prices, counts, amounts, np.zeros(3)) for counts in every_plan(prices, cluster, longest)
        )

        outcome = deploy(Fluid(prices, cluster, longest, EXACT), amounts)

        assert outcome.bound_seconds == pytest.approx(best, rel=MARGIN), seed
        assert outcome.bound_seconds <= best, seed
        assert least_seconds(prices, outcome.counts, amounts, np.zeros(3)) == pytest.approx(best, rel=1e-6), seed


@pytest.mark.parametrize("seed", range(12))
def test_with_bubbles_it_bounds_all_plans_faster_than_the_time_they_are_charged_against(seed):
    prices, amounts, cluster, longest = random_instance(seed)
    plans = list(every_plan(prices, cluster, longest))
    best = min(least_seconds(prices, counts, amounts, prices.bubbles) for counts in plans)

    free = deploy(Fluid(prices, cluster, longest, EXACT), amounts)
    charged = deploy(Fluid(prices, cluster, longest, EXACT), amounts, 1.5 * best)

    assert free.bound_seconds * (1 - 1e-9) <= charged.bound_seconds <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_fluid_time_of_a_plan_includes_its_bubbles(seed):
    prices, amounts, cluster, longest = random_instance(seed)
    counts = next(
        counts
        for counts in every_plan(prices, cluster, longest)
        if np.isfinite(least_seconds(prices, counts, amounts, prices.bubbles))
    )

    actual = fluid_seconds(prices, counts, amounts)

    assert actual == pytest.approx(least_seconds(prices, counts, amounts, prices.bubbles), rel=1e-6)


def test_a_plan_that_cannot_serve_a_class_takes_forever():
    prices = prices_of([[1.0, np.inf], [1.0, 2.0]], [Kind(ReplicaConfig(1, 1), 10), Kind(ReplicaConfig(2, 1), 20)])

    assert fluid_seconds(prices, (3, 0), np.array([1.0, 1.0])) == np.inf


def test_a_class_that_fits_nowhere_has_no_plan():
    prices = prices_of([[1.0, np.inf]], [Kind(ReplicaConfig(1, 1), 10)])

    assert deploy(Fluid(prices, one_node(4), 1, EXACT), np.array([1.0, 1.0])) is None


def test_the_longest_sequence_is_held_even_where_none_is_expected():
    prices = prices_of([[1.0], [9.0]], [Kind(ReplicaConfig(1, 1), 10), Kind(ReplicaConfig(2, 1), 20)])
    amounts = np.array([4.0])

    assert deploy(Fluid(prices, one_node(4), 10, EXACT), amounts).counts == (4, 0)
    assert deploy(Fluid(prices, one_node(4), 20, EXACT), amounts).counts == (2, 1)


def test_tp_groups_have_room_inside_uneven_nodes():
    prices = prices_of([[4.0], [1.0]], [Kind(ReplicaConfig(1, 1), 10), Kind(ReplicaConfig(2, 1), 20)])
    nodes = replace(toys.cluster(nodes=3), node_sizes=(3, 3, 3))

    assert deploy(Fluid(prices, nodes, 1, EXACT), np.array([12.0])).counts == (3, 3)


def test_nothing_is_faster_than_ideal():
    for seed in range(12):
        prices, amounts, cluster, longest = random_instance(seed)
        outcome = deploy(Fluid(prices, cluster, longest, EXACT), amounts)
        assert ideal_seconds(prices, amounts, cluster.gpus) <= outcome.bound_seconds * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_dropping_dominated_kinds_loses_nothing(seed):
    random = np.random.default_rng(seed)
    configs = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4)]
    kinds = [Kind(ReplicaConfig(tp, pp), 100 * tp) for tp, pp in configs]
    gpus = np.array([kind.config.gpus for kind in kinds])
    each = random.uniform(0.8, 1.3, (6, 3)) * np.array([1.0, 3.0, 8.0]) / gpus[:, None]
    prices = prices_of(each, kinds, random.uniform(0.0, 1.0, 6))
    amounts, longest = random.integers(1, 9, 3).astype(float), int(random.choice([100, 200, 400]))

    kept = undominated(prices, longest)

    every = deploy(Fluid(prices, one_node(8), longest, EXACT), amounts)
    fewer = deploy(Fluid(prices.rows(kept), one_node(8), longest, EXACT), amounts)
    assert fewer.bound_seconds == pytest.approx(every.bound_seconds, rel=1e-6)


def test_a_kind_that_is_worse_in_everything_is_dropped_and_one_of_two_equal_ones_stays():
    kinds = [Kind(ReplicaConfig(2, 1), 10), Kind(ReplicaConfig(1, 1), 10), Kind(ReplicaConfig(1, 1), 10)]
    prices = prices_of([[1.4, 1.4], [3.0, 3.0], [3.0, 3.0]], kinds)

    assert undominated(prices, 10) == (0, 1)
    assert undominated(prices_of([[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]], kinds), 10) == (1,)


def test_a_kind_that_alone_holds_the_longest_sequence_stays():
    kinds = [Kind(ReplicaConfig(2, 1), 20), Kind(ReplicaConfig(1, 1), 10)]
    prices = prices_of([[9.0], [1.0]], kinds)

    assert undominated(prices, 10) == (1,)
    assert undominated(prices, 20) == (0, 1)


def test_classes_are_the_buckets_of_all_batches_side_by_side():
    batches = [toys.batch(100, 200, 900, step=0), toys.batch(100, 2000, step=1)]

    classes = classes_of(batches, Padded(FixedBuckets((256, 1024, 4096))), toys.plan((4, 1, 4)), toys.ToyCost())

    assert classes.widths == (256, 1024, 4096)
    assert classes.by_batch.tolist() == [[2, 1, 0], [1, 0, 1]]
    assert classes.counts.tolist() == [1.5, 0.5, 0.5]


def test_a_sequence_is_charged_its_share_of_the_best_micro_batch():
    cost = toys.ToyCost(floor=2.0, fixed=0.25)
    kinds = [Kind(ReplicaConfig(1, 1), 1024), Kind(ReplicaConfig(4, 1), 4096)]
    lengths = [200, 500, 2000]
    batching = Padded(FixedBuckets((200, 500, 2000)))
    classes = classes_of([toys.batch(*lengths)], batching, toys.plan((4, 1, 4)), cost)

    prices = table(classes, kinds, batching, cost)

    for row, kind in enumerate(kinds):
        for column, length in enumerate(lengths):
            rates = cost.rates(kind.config, np.array([length]))
            sizes = range(1, kind.budget // length + 1)
            shares = [max(rates.floor, rates.fixed[0] + rates.row[0] * size) / size for size in sizes]
            assert prices.each[row, column] == pytest.approx(min(shares, default=np.inf))


def test_the_most_awkward_sequence_bounds_a_step():
    alone = np.array([1.0, 4.0, 9.0])

    assert awkward_seconds(alone, np.array([[5, 1, 0], [2, 0, 1]])) == (4.0 + 9.0) / 2
    assert Classes((), np.zeros((1, 0))).counts.tolist() == []
