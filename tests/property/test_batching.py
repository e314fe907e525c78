"""Laws of batching: nothing lost, nothing that does not fit, prices that agree with the work formed."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from lobra.batch import Batch
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig
from policies.batching.boundaries import SIXTEEN, DynamicBuckets, FixedBuckets
from policies.batching.buckets import upper_ends
from policies.batching.pack_prices import pack_prices
from policies.batching.packed import Packed
from policies.batching.packing import choose_bins
from policies.batching.padded import Padded
from policies.batching.portfolio import Portfolio
from policies.evaluate import count_seconds, microbatch_seconds, work_seconds

PADDED = [
    Padded(FixedBuckets()),
    Padded(FixedBuckets(SIXTEEN, align=True)),
    Padded(),
    Padded(DynamicBuckets(3, 64)),
    Portfolio(5, 32),
]
PACKED = [
    Packed(),
    Packed(class_step=100, round_to=128, splits=(1, 2)),
    Packed(round_to=100, align="run"),
    Packed(round_to=64, align="sequence"),
]
EVERY = [*PADDED, *PACKED]

LONGEST = 2041
sequences = st.lists(st.tuples(st.integers(0, 3), st.integers(1, LONGEST)), min_size=1, max_size=60)
costs = st.builds(
    toys.ToyCost, floor=st.sampled_from([0.0, 0.5, 2.0]), fixed=st.floats(0.0, 1.0), square=st.floats(0.0, 1e-6)
)
packing_costs = st.builds(toys.ToyCost, floor=st.sampled_from([0.0, 1.0]), run=st.sampled_from([0.0, 0.3]))
replicas = st.builds(
    lambda tp, pp, budget: Replica(ReplicaConfig(tp, pp), tuple(range(tp * pp)), budget),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2, 4]),
    st.integers(LONGEST, 6000),
)
shard_counts = st.sampled_from([1, 2, 3])
laws = settings(max_examples=60, deadline=None)


def batch_of(pairs):
    return toys.batch(*(length for _, length in pairs), tenants=[tenant for tenant, _ in pairs])


def plan_of(*members):
    placed = tuple(  # a node each
        Replica(replica.config, tuple(range(8 * node, 8 * node + replica.config.gpus)), replica.budget)
        for node, replica in enumerate(members)
    )
    return DeploymentPlan(toys.MODEL, toys.cluster(4), (toys.tenant(),), placed)


def group_of(shards):
    return tuple(range(shards)) if shards > 1 else ()


def everything(work):
    return Counter(sequence for m in work for row in m.rows for sequence in row)


@pytest.mark.parametrize("batching", EVERY)
@given(pairs=sequences, largest=replicas, smaller=st.lists(st.integers(1, LONGEST), max_size=3))
@laws
def test_buckets_hold_every_sequence_once_and_none_that_fits_becomes_unplaceable(batching, pairs, largest, smaller):
    batch = batch_of(pairs)
    plan = plan_of(largest, *(Replica(ReplicaConfig(1, 1), (0,), budget) for budget in smaller))

    buckets = batching.bucket(batch, plan, toys.ToyCost())
    widths = [bucket.width for bucket in buckets]

    assert Counter(batch.refs()) == Counter(ref for bucket in buckets for ref in bucket.sequences.refs())
    assert sorted(set(widths)) == widths
    assert all(bucket.count for bucket in buckets)
    assert all(bucket.sequences.length.max() <= bucket.width for bucket in buckets)
    assert max(widths) <= largest.budget


@pytest.mark.parametrize("batching", EVERY)
@given(pairs=sequences, replica=replicas, shards=shard_counts, cost=packing_costs)
@laws
def test_microbatches_hold_every_sequence_once_within_the_budget_costliest_first(
    batching, pairs, replica, shards, cost
):
    batch = batch_of(pairs)

    work = batching.form(batching.bucket(batch, plan_of(replica), cost), replica, cost, group_of(shards))
    seconds = [microbatch_seconds(m, replica, cost) for m in work]

    assert Counter(batch.refs()) == everything(work)
    assert max(m.shape.tokens for m in work) <= replica.budget * shards
    assert sorted(seconds, reverse=True) == pytest.approx(seconds, rel=1e-9)
    assert {group_of(shards)} == {m.group for m in work}
    for m in work:
        order = [(sequence.tenant, sequence.index) for row in m.rows for sequence in row]
        assert sorted(order) == order


@pytest.mark.parametrize("batching", PADDED)
@given(pairs=sequences, replica=replicas, shards=shard_counts, cost=costs)
@laws
def test_the_price_of_padded_counts_is_the_time_of_the_microbatches_formed(batching, pairs, replica, shards, cost):
    buckets = batching.bucket(batch_of(pairs), plan_of(replica), cost)

    loads = batching.loads(buckets, replica, cost, shards)
    priced = count_seconds(loads, np.array([bucket.count for bucket in buckets]))

    work = batching.form(buckets, replica, cost, group_of(shards))
    assert work_seconds(work, replica, cost) == pytest.approx(float(priced), rel=1e-9)


@pytest.mark.parametrize("batching", PADDED)
@given(pairs=sequences, replica=replicas)
@laws
def test_padded_microbatches_of_a_bucket_are_as_few_and_as_even_as_can_be(batching, pairs, replica):
    buckets = batching.bucket(batch_of(pairs), plan_of(replica), toys.ToyCost())

    work = batching.form(buckets, replica, toys.ToyCost())

    for bucket in buckets:
        rows = [len(m.rows) for m in work if m.width == bucket.width]
        assert -(-bucket.count // (replica.budget // bucket.width)) == len(rows)
        assert max(rows) - min(rows) <= 1


@given(pairs=sequences, replica=replicas, padded=st.sampled_from(PADDED))
@laws
def test_packing_computes_the_useful_tokens_alone_and_padding_no_fewer(pairs, replica, padded):
    batch, cost = batch_of(pairs), toys.ToyCost()

    def tokens(batching):
        work = batching.form(batching.bucket(batch, plan_of(replica), cost), replica, cost)
        return sum(m.shape.tokens for m in work)

    assert batch.tokens == tokens(Packed())
    assert batch.tokens <= tokens(padded)


@given(pairs=sequences, replica=replicas, shards=shard_counts, cost=packing_costs, packed=st.sampled_from(PACKED))
@laws
def test_the_packing_is_chosen_by_the_time_its_microbatches_take(pairs, replica, shards, cost, packed):
    buckets = packed.bucket(batch_of(pairs), plan_of(replica), cost)
    batch = batch_of(pairs)
    batch = batch.take(np.lexsort((batch.index, batch.tenant, -batch.length)))
    prices = pack_prices(cost, replica.config, shards, replica.budget * shards, packed.round_to, align=packed.align)

    chosen = choose_bins(batch, prices, packed.splits).total
    work = packed.form(buckets, replica, cost, group_of(shards))

    assert work_seconds(work, replica, cost) == pytest.approx(chosen, rel=1e-9)
    assert chosen <= choose_bins(batch, prices, (1,)).total


@given(
    lengths=st.lists(st.integers(1, 9000), min_size=1, max_size=30, unique=True).map(sorted),
    step=st.sampled_from([1, 16, 64, 256, 1000]),
    budgets=st.lists(st.integers(1, 5000), min_size=1, max_size=4, unique=True).map(sorted),
)
@laws
def test_rounding_up_is_monotone_and_takes_no_replica_from_a_sequence(lengths, step, budgets):
    ends = upper_ends(np.array(lengths), step, np.array(budgets)).tolist()

    assert sorted(ends) == ends
    for length, end in zip(lengths, ends, strict=True):
        assert length <= end < length + step
        assert sum(budget >= length for budget in budgets) == sum(budget >= end for budget in budgets)


@pytest.mark.parametrize("batching", EVERY)
@given(pairs=sequences, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_order_in_which_sequences_arrive_changes_nothing(batching, pairs, seed):
    batch, cost = batch_of(pairs), toys.ToyCost(run=0.1)
    replica = Replica(ReplicaConfig(1, 2), (0, 1), 4096)
    shuffled: Batch = batch.take(np.random.default_rng(seed).permutation(len(batch)))

    def work(arrived):
        return batching.form(batching.bucket(arrived, plan_of(replica), cost), replica, cost)

    assert work(batch) == work(shuffled)
