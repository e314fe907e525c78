"""Packed rows over unequal replicas: dealing, levelling, exact repair, and the whole of it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from lobra.check import check_conserved, check_step
from lobra.errors import BadInput, Infeasible
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.dispatch.balanced import Balanced
from policies.dispatch.packed_dealing import kinds_by_quota, longest_first
from policies.dispatch.packed_level import _Steps, level, sample_of
from policies.dispatch.packed_pipeline import PackedPipeline
from policies.dispatch.packed_repair import repair_packed
from policies.dispatch.packed_shares import exchanged
from policies.evaluate import work_seconds
from policies.policy import step_plan

COST = toys.ToyCost()
PLANS = (
    toys.plan((4, 1, 1)),
    toys.plan((1, 1, 6), (2, 1, 1), (4, 1, 2)),
    toys.plan((1, 2, 4), (4, 1, 2)),
    toys.plan((2, 2, 2), (4, 2, 1)),
)
plans = st.sampled_from(PLANS)
batches = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4000)), min_size=1, max_size=60).map(
    lambda found: toys.batch(*[length for _, length in found], tenants=[owner for owner, _ in found])
)
batchings = st.builds(Packed, align=st.sampled_from(["row", "run", "sequence"]), round_to=st.sampled_from([1, 64, 100]))
costs = st.builds(toys.ToyCost, floor=st.sampled_from([0.0, 0.5, 2.0]), run=st.sampled_from([0.0, 0.2]))


def skewed(count, seed=0):
    random = np.random.default_rng(seed)
    lengths = np.clip(random.lognormal(5.5, 1.2, count), 1, 4000).astype(int)
    return toys.batch(*lengths.tolist(), tenants=np.sort(random.integers(0, 3, count)))


def divided(batch, plan, dispatch, batching=Packed(), cost=COST):  # noqa: B008  # frozen
    return dispatch.divide(batching.bucket(batch, plan, cost), plan, batching, cost)


def slowest(step, plan, cost=COST):
    return max(work_seconds(work, replica, cost) for work, replica in zip(step.work, plan.replicas, strict=True))


@given(batch=batches, plan=plans, batching=batchings, cost=costs)
@settings(max_examples=50, deadline=None)
def test_every_sequence_is_packed_once_where_it_fits_whatever_is_rounded(batch, plan, batching, cost):
    step = step_plan(batch, plan, batching, PackedPipeline(), cost)

    check_step(plan, step)
    check_conserved(batch, step)


@given(batch=batches, plan=plans, batching=batchings, cost=costs)
@settings(max_examples=30, deadline=None)
def test_the_seconds_found_are_those_of_the_microbatches_formed(batch, plan, batching, cost):
    shares = divided(batch, plan, PackedPipeline(), batching, cost)
    step = step_plan(batch, plan, batching, PackedPipeline(), cost)

    assert slowest(step, plan, cost) == pytest.approx(shares.seconds.max(), rel=1e-9)


@given(batch=batches, plan=plans, batching=batchings, cost=costs)
@settings(max_examples=30, deadline=None)
def test_repair_is_never_worse_and_loses_nothing(batch, plan, batching, cost):
    shares = divided(batch, plan, PackedPipeline(tries=0), batching, cost)
    before = shares.seconds.max()

    repair_packed(shares, 30)

    assert shares.seconds.max() <= before
    assert sorted(np.concatenate(shares.held).tolist()) == list(range(len(batch)))
    for machine, held in enumerate(shares.held):
        assert sorted(held.tolist()) == held.tolist()
        assert shares.price_on(int(shares.kind[machine]), held) == shares.seconds[machine]
        assert np.all(shares.sequences.length[held] <= plan.replicas[machine].budget)


def test_repair_takes_out_what_dealing_left_uneven():
    plan = toys.plan((1, 1, 2))
    shares = divided(toys.batch(*[1000] * 3, *[300] * 3), plan, PackedPipeline(tries=0))
    shares.held = [np.array([0, 1, 2, 3]), np.array([4, 5])]
    shares.seconds = np.array([shares.price_on(0, held) for held in shares.held])
    before = shares.seconds.max()

    repair_packed(shares, 10)

    assert shares.seconds.max() < 0.8 * before


def test_kinds_share_a_class_in_proportion_over_its_lengths():
    quotas = np.array([[4, 0], [2, 3]])  # classes ascending, sequences longest first

    assert kinds_by_quota(quotas).tolist() == [1, 1, 1, 0, 1, 0, 0, 1, 0]


def samples(shares, kinds):
    sizes = np.bincount(shares.kind).tolist()
    return tuple(sample_of(shares, kind, np.flatnonzero(kinds == kind), size) for kind, size in enumerate(sizes))


@pytest.mark.parametrize("first", [0, -1])
def test_levelling_brings_kinds_together_whatever_they_held(first):
    plan = toys.plan((1, 1, 6), (2, 1, 1), (4, 1, 2))
    shares = divided(skewed(2000), plan, PackedPipeline(tries=0), cost=replace(COST, floor=0.0))
    rooms = [prices.room for prices in shares.prices]
    kinds = np.array([np.flatnonzero(np.array(rooms) >= length)[first] for length in shares.sequences.length])
    before = [sample.seconds if sample else 0.0 for sample in samples(shares, kinds)]

    for _ in range(2):
        level(shares, kinds, samples(shares, kinds))

    after = [sample.seconds for sample in samples(shares, kinds)]
    assert max(after) - min(after) < 0.4 * (max(before) - min(before))
    assert np.all(shares.sequences.length <= np.array(rooms)[kinds])


def test_a_kind_that_cannot_hold_them_is_handed_none():
    plan = toys.plan((1, 1, 1), (4, 1, 1))
    room = plan.replicas[0].budget
    shares = divided(toys.batch(*[room + 1] * 6), plan, PackedPipeline(tries=0))
    kinds = np.ones(6, dtype=np.int64)

    level(shares, kinds, samples(shares, kinds))

    assert kinds.tolist() == [1] * 6


@given(
    tokens=st.integers(0, 100_000),
    token=st.floats(1e-5, 1e-3),
    pack=st.sampled_from([0.0, 900.0]),
    opening=st.floats(0, 1),
)
def test_a_replica_holds_within_its_seconds_what_it_holds(tokens, token, pack, opening):
    steps = _Steps(tokens, token, pack, opening, 0.0)

    assert steps.tokens_within(np.array([steps.seconds * (1 + 1e-9)])) >= tokens * (1 - 1e-6)


def test_no_token_is_added_until_the_next_pack_is_paid():
    steps = _Steps(0.0, 0.001, 1000.0, 1.0, 0.0)

    assert steps.tokens_within(np.array([0.5, 1.5, 2.0, 2.9, 3.5])).tolist() == pytest.approx(
        [0, 500, 1000, 1000, 1500]
    )


def test_one_long_sequence_goes_against_several_short_ones():
    plan = toys.plan((1, 1, 2))
    shares = divided(toys.batch(*[1000] * 3, *[240] * 9), plan, PackedPipeline(tries=0))
    shares.held = [np.array([0, 1, 2]), np.arange(3, 12)]
    shares.seconds = np.array([shares.price_on(0, held) for held in shares.held])
    before = shares.seconds.max()

    repair_packed(shares, 10)

    assert shares.seconds.max() < before
    assert len(shares.held[0]) > 3


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=300), st.integers(1, 12))
@settings(max_examples=100)
def test_machines_differ_by_no_more_than_the_greatest_cost(costs, machines):
    costs = np.sort(np.array(costs))[::-1]

    owner = longest_first(costs, machines)
    loads = np.bincount(owner, weights=costs, minlength=machines)

    assert len(owner) == len(costs)
    assert loads.max() - loads.min() <= costs[0] * (1 + 1e-9)


def test_many_costs_are_dealt_as_evenly_as_one_by_one():
    costs = np.sort(np.random.default_rng(4).lognormal(0, 1, 20_000))[::-1]

    loads = np.bincount(longest_first(costs, 64), weights=costs)

    assert loads.max() / loads.mean() - 1 < 1e-4


def test_exchanged_positions_stay_ascending():
    assert exchanged(np.array([1, 4, 9]), [4], [7]).tolist() == [1, 7, 9]
    assert exchanged(np.array([1, 4, 9]), [9, 4], []).tolist() == [1]
    assert exchanged(np.array([1, 4, 9]), [], [5, 0]).tolist() == [0, 1, 4, 5, 9]


@pytest.mark.parametrize("plan", PLANS[1:], ids=lambda plan: plan.summary())
def test_it_is_about_as_fast_as_balancing_counts_and_repairing_microbatches(plan):
    cost = replace(COST, floor=0.0)
    ours, balanced = (
        np.mean([slowest(step_plan(skewed(300, seed), plan, Packed(), policy, cost), plan, cost) for seed in range(3)])
        for policy in (PackedPipeline(), Balanced(repair=16))
    )

    assert ours < balanced * 1.02


def test_the_same_batch_is_always_packed_the_same():
    first, second = (step_plan(skewed(120), PLANS[1], Packed(), PackedPipeline(), COST) for _ in range(2))

    assert first == second


def test_replicas_may_idle_and_an_empty_batch_is_no_work():
    assert step_plan(toys.batch(), PLANS[1], Packed(), PackedPipeline(), COST).work == ((),) * 9
    assert sum(map(bool, step_plan(toys.batch(100), PLANS[1], Packed(), PackedPipeline(), COST).work)) == 1


def test_a_sequence_that_fits_nowhere_is_refused():
    with pytest.raises(Infeasible, match="fits no replica"):
        step_plan(toys.batch(5000), PLANS[1], Packed(), PackedPipeline(), COST)


def test_padded_batching_is_refused_with_the_way_out():
    with pytest.raises(BadInput, match=r"policy/batching=packed"):
        step_plan(toys.batch(100), PLANS[1], Padded(), PackedPipeline(), COST)


@pytest.mark.parametrize("knobs", [{"tries": -1}, {"corrections": -1}])
def test_knobs_below_zero_are_refused(knobs):
    with pytest.raises(BadInput, match="must not be negative"):
        PackedPipeline(**knobs)
