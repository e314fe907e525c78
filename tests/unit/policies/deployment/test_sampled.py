"""The sample-average program against enumeration: its optimum, its bound, its bubbles, its limits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.plan import ReplicaConfig
from policies.deployment.classes import undominated
from policies.deployment.placement import Kind
from policies.deployment.rounds import charged_seconds, rounds, single_kind
from policies.deployment.sampled import FAR, NEAR, deploy_sampled, sampled_seconds
from policies.deployment.tau import Fluid, Search, deploy
from unit.policies.deployment.instances import EXACT, every_plan, least_seconds, one_node, prices_of, random_instance

TANGENTS = 2.5e-4  # neighbours are 3 % apart: their error is a quarter of that squared


def instance(seed, batches=3):
    prices, amounts, cluster, longest = random_instance(seed)
    random = np.random.default_rng([seed, 1])
    by_batch = np.maximum(0, amounts + random.integers(-8, 9, (batches, len(amounts)))).astype(float)
    by_batch[:, 0] += 1
    return Fluid(prices, cluster, longest, EXACT), by_batch


def mean_seconds(fluid, counts, by_batch, bubbles):
    seconds = []
    for amounts in by_batch:
        present = amounts > 0
        prices = replace(fluid.prices, each=fluid.prices.each[:, present])
        seconds.append(least_seconds(prices, counts, amounts[present], bubbles))
    return float(np.mean(seconds))


def optimum(fluid, by_batch, bubbles):
    plans = every_plan(fluid.prices, fluid.cluster, fluid.longest)
    return min(mean_seconds(fluid, counts, by_batch, bubbles) for counts in plans)


@pytest.mark.parametrize("seed", range(8))
def test_it_equals_the_best_of_all_plans_on_average_and_never_exceeds_it(seed):
    fluid, by_batch = instance(seed)
    none = np.zeros(len(fluid.prices.kinds))
    best = optimum(fluid, by_batch, none)

    outcome = rounds(fluid, by_batch).relaxed

    assert mean_seconds(fluid, outcome.counts, by_batch, none) == pytest.approx(best, rel=TANGENTS)
    assert outcome.bound_seconds == pytest.approx(best, rel=TANGENTS)
    assert outcome.bound_seconds <= best
    assert outcome.status == "optimal"


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_with_bubbles_holds_for_every_plan_that_waits_for_full_micro_batches(seed):
    fluid, by_batch = instance(seed)
    best = optimum(fluid, by_batch, fluid.prices.bubbles)

    found = rounds(fluid, by_batch)

    assert found.relaxed.bound_seconds <= found.with_bubbles <= best * (1 + 1e-6)
    assert mean_seconds(fluid, found.counts[0], by_batch, fluid.prices.bubbles) >= best * (1 - 1e-9)


def test_a_plan_for_each_batch_is_not_the_plan_for_the_mean_batch():
    kinds = [Kind(ReplicaConfig(1, 1), 10), Kind(ReplicaConfig(4, 1), 40)]
    prices = prices_of([[1.0, np.inf], [0.5, 2.0]], kinds)
    by_batch = np.array([[40.0, 0.0], [40.0, 0.0], [40.0, 12.0]])
    fluid = Fluid(prices, one_node(8), 40, EXACT)

    sampled = rounds(fluid, by_batch).relaxed

    mean = deploy(fluid, by_batch.mean(axis=0))
    ours, theirs = (sampled_seconds(prices, plan.counts, by_batch).mean() for plan in (sampled, mean))
    assert ours <= theirs
    assert mean.bound_seconds <= sampled.bound_seconds  # a mean batch is always too confident


def test_one_batch_is_the_tau_program():
    for seed in range(6):
        fluid, by_batch = instance(seed, batches=1)
        assert rounds(fluid, by_batch).relaxed.bound_seconds == pytest.approx(
            deploy(fluid, by_batch[0]).bound_seconds, rel=TANGENTS
        )


@pytest.mark.parametrize("seed", range(6))
def test_fractions_of_replicas_bound_whole_ones(seed):
    fluid, by_batch = instance(seed)
    whole = rounds(fluid, by_batch).relaxed
    expected = sampled_seconds(fluid.prices, whole.counts, by_batch, bubbles=False)

    fractions = deploy_sampled(fluid, by_batch, expected, whole=False)

    assert fractions.bound_seconds <= whole.bound_seconds * (1 + TANGENTS)


def test_tangents_are_never_above_the_curve_and_close_to_it_where_times_are_expected():
    tau = np.linspace(1 / 1.4, 1 / 0.8, 500)
    tangents = np.max(2 / (1 / NEAR)[:, None] - tau / (1 / NEAR)[:, None] ** 2, axis=0)
    far = np.max(2 / FAR[:, None] - tau / FAR[:, None] ** 2, axis=0)

    assert np.all(tangents <= 1 / tau * (1 + 1e-12))
    assert np.all(far <= 1 / tau * (1 + 1e-12))
    assert np.all(tangents >= 1 / tau * (1 - TANGENTS))


def test_a_search_that_may_not_begin_still_hands_over_a_plan_a_bound_and_a_label():
    prices, amounts, cluster, longest = random_instance(3)
    fluid = Fluid(prices, cluster, longest, EXACT)
    by_batch = amounts[None, :]
    hasty = replace(fluid, search=Search(time_limit_seconds=1e-9))

    found = rounds(hasty, by_batch)

    if found is not None:  # the relaxed programs may be cut off, too
        assert found.relaxed.status != "optimal"
        heuristic = single_kind(fluid, by_batch)
        best = charged_seconds(fluid, found.counts[0], by_batch).mean()
        assert heuristic is None or best <= charged_seconds(fluid, heuristic, by_batch).mean()


def test_replicas_that_share_their_weights_come_in_whole_groups():
    kinds = [Kind(ReplicaConfig(1, 1, fsdp=2), 20), Kind(ReplicaConfig(2, 1), 10)]
    fluid = Fluid(prices_of([[1.0], [9.0]], kinds), one_node(7), 20, EXACT)
    by_batch = np.array([[12.0]])

    found = rounds(fluid, by_batch)

    assert found.counts[0] == (6, 0)
    assert found.relaxed.bound_seconds == pytest.approx(2.0, rel=TANGENTS)
    assert deploy(fluid, by_batch[0]).counts == (6, 0)


@given(st.integers(0, 10_000), st.integers(4, 9))
@settings(max_examples=10, deadline=None)
def test_one_more_gpu_never_raises_the_certified_optimum(seed, gpus):
    prices, amounts, _, longest = random_instance(seed)
    by_batch = np.stack([amounts, amounts[::-1]])
    fewer, more = (rounds(Fluid(prices, one_node(size), longest, EXACT), by_batch) for size in (gpus, gpus + 1))

    if fewer is not None:
        assert more.relaxed.bound_seconds <= fewer.relaxed.bound_seconds * (1 + TANGENTS)


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_dropping_dominated_kinds_loses_nothing(seed):
    random = np.random.default_rng(seed)
    configs = [(1, 1, 1), (2, 1, 1), (4, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 2)]
    kinds = [Kind(ReplicaConfig(tp, pp, fsdp=fsdp), 100 * tp) for tp, pp, fsdp in configs]
    gpus = np.array([kind.config.gpus for kind in kinds])
    each = random.uniform(0.8, 1.3, (6, 3)) * np.array([1.0, 3.0, 8.0]) / gpus[:, None]
    prices = prices_of(each, kinds, random.uniform(0.0, 0.5, 6))
    by_batch, longest = random.integers(1, 9, (2, 3)).astype(float), int(random.choice([100, 200, 400]))

    fewer = prices.rows(undominated(prices, longest))

    every, left = (rounds(Fluid(table, one_node(8), longest, EXACT), by_batch) for table in (prices, fewer))
    assert left.relaxed.bound_seconds == pytest.approx(every.relaxed.bound_seconds, rel=TANGENTS)
    assert len(fewer.kinds) <= len(prices.kinds)
