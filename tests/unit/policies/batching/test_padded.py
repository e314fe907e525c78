"""Padding: buckets, their prices, and the micro-batches formed of them."""

import numpy as np
import pytest

import toys
from lobra.batch import Bucket
from lobra.errors import Infeasible
from policies.batching.boundaries import DynamicBuckets, FixedBuckets
from policies.batching.padded import Padded

PLAN = toys.plan((1, 1, 2), (2, 1, 1))  # budgets 1024 and 2048
COST = toys.ToyCost()
FIXED = Padded(FixedBuckets((256, 512, 1024, 2048)))


def described(work):
    return [(len(m.rows), m.width) for m in work]


def test_a_batch_falls_into_buckets_without_an_empty_one():
    batch = toys.batch(600, 10, 256, 257, 2048, tenants=[1, 1, 0, 0, 0])

    buckets = FIXED.bucket(batch, PLAN, COST)

    assert [(bucket.width, bucket.sequences.length.tolist()) for bucket in buckets] == [
        (256, [256, 10]),
        (512, [257]),
        (1024, [600]),
        (2048, [2048]),
    ]


def test_an_empty_batch_has_no_bucket_and_an_empty_share_no_work():
    assert FIXED.bucket(toys.batch(), PLAN, COST) == ()
    assert FIXED.form((), PLAN.replicas[0], COST) == ()
    assert FIXED.form((Bucket(256, toys.batch()),), PLAN.replicas[0], COST) == ()


def test_loads_are_the_cost_models_own_prices():
    buckets = FIXED.bucket(toys.batch(200, 300, 2000), PLAN, COST)

    loads = FIXED.loads(buckets, PLAN.replicas[0], COST)
    rates = COST.rates(PLAN.replicas[0].config, np.array([256, 512, 2048]))

    assert loads.capacity.tolist() == [4, 2, 0]
    assert rates.row.tolist() == loads.each.tolist()
    assert rates.fixed.tolist() == loads.fixed.tolist()
    assert (rates.floor, 1, None) == (loads.floor, loads.stages, loads.longest)


def test_a_group_holds_as_much_as_its_members_together():
    buckets = FIXED.bucket(toys.batch(200, 2000), PLAN, COST)

    loads = FIXED.loads(buckets, PLAN.replicas[0], COST, shards=2)
    (long, short) = FIXED.form(buckets, PLAN.replicas[0], COST, group=(0, 1))

    assert loads.capacity.tolist() == [8, 1]
    assert (long.group, long.shape.shards, long.width) == ((0, 1), 2, 2048)
    assert (short.group, short.width) == ((0, 1), 256)


def test_a_bucket_is_cut_into_the_fewest_microbatches_of_even_size():
    share = FIXED.bucket(toys.batch(*[200] * 9), PLAN, COST)  # four a micro-batch: three of them

    assert described(FIXED.form(share, PLAN.replicas[0], COST)) == [(3, 256)] * 3


def test_rows_are_ordered_by_tenant_then_index_whatever_the_share_s_order():
    batch = toys.batch(200, 210, 220, 230, 240, tenants=[1, 0, 1, 0, 1]).take(np.array([4, 1, 0, 3, 2]))

    work = FIXED.form((Bucket(256, batch),), PLAN.replicas[0], COST)

    assert [[(sequence.tenant, sequence.index) for (sequence,) in m.rows] for m in work] == [
        [(0, 1), (0, 3), (1, 0)],
        [(1, 2), (1, 4)],
    ]


def test_the_costliest_microbatch_comes_first():
    share = FIXED.bucket(toys.batch(100, 300, 1000, 1000), PLAN, COST)

    assert described(FIXED.form(share, PLAN.replicas[0], COST)) == [(1, 1024), (1, 1024), (1, 512), (1, 256)]


def test_microbatches_at_the_floor_cost_the_same_and_the_wider_comes_first():
    share = FIXED.bucket(toys.batch(10, 300), PLAN, COST)

    assert described(FIXED.form(share, PLAN.replicas[0], toys.ToyCost(floor=50))) == [(1, 512), (1, 256)]


def test_a_share_that_does_not_fit_is_refused_with_tenant_length_and_room():
    share = FIXED.bucket(toys.batch(100, 2000, tenants=[0, 3]), PLAN, COST)

    with pytest.raises(Infeasible, match=r"tenant 3 .* needs 2048 tokens, .*<1,1> .* holds 1024"):
        FIXED.form(share, PLAN.replicas[0], COST)


def test_dynamic_buckets_are_the_default_and_keep_every_sequence_placeable():
    buckets = Padded().bucket(toys.batch(2041, 2048, 1020, 30), PLAN, COST)

    assert [bucket.width for bucket in buckets] == [32, 1024, 2048]


def test_dynamic_buckets_pad_no_more_than_as_many_fixed_ones():
    batch = next(toys.workload().batches(1))

    def tokens(batching):
        return sum(bucket.width * bucket.count for bucket in batching.bucket(batch, toys.plan((4, 1, 1)), COST))

    assert tokens(Padded(DynamicBuckets(7, 16))) < tokens(Padded(FixedBuckets()))
