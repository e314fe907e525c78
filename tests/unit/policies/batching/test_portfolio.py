"""Bucketings chosen for the plan: worths of seconds, forced budgets, and the judgement between them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from lobra.errors import BadInput
from policies.batching.boundaries import DynamicBuckets
from policies.batching.market import Market, market_of
from policies.batching.padded import Padded
from policies.batching.portfolio import Portfolio
from policies.bounds.fluid import fluid
from policies.dispatch.fleet import bucket_counts, fleet_of
from policies.machines import Machine

PLAN = toys.plan((1, 1, 4), (2, 1, 2), (4, 1, 1))  # budgets 1024, 2048, 4096
COST = toys.ToyCost()


def fluid_seconds(buckets, plan, cost=COST):
    fleet = fleet_of(buckets, tuple(map(Machine, plan.replicas)), Padded(), cost)
    return fluid(fleet.loads, fleet.sizes.tolist(), bucket_counts(buckets))[0]


def skewed(count, seed, longest=4096):
    random = np.random.default_rng(seed)
    return toys.batch(*np.clip(random.lognormal(5.5, 1.2, count), 1, longest).astype(int).tolist())


def test_the_dual_market_is_worth_what_the_fluid_takes():
    buckets = Padded().bucket(skewed(200, 1), PLAN, COST)
    market = market_of(np.array([bucket.width for bucket in buckets]), PLAN, COST)

    seconds, worths = market.fluid(np.arange(len(buckets)), bucket_counts(buckets).astype(float))

    assert seconds == pytest.approx(fluid_seconds(buckets, PLAN), rel=1e-6)
    assert market.replicas @ worths == pytest.approx(1.0)
    assert market.prices(worths) @ bucket_counts(buckets) == pytest.approx(seconds, rel=1e-6)


def test_prices_do_not_fall_with_the_width_and_leave_out_what_does_not_fit():
    market = Market(np.array([[1.0, np.inf, np.inf], [4.0, 3.0, 9.0]]), np.array([2, 1]), np.array([1, 4]))

    assert market.prices(np.array([0.0, 0.5])).tolist() == [0.0, 1.5, 4.5]
    assert market.prices(np.array([0.9, 0.5])).tolist() == [0.9, 1.5, 4.5]
    assert market.even.tolist() == [1 / 6, 4 / 6]


@given(count=st.integers(1, 60), seed=st.integers(0, 2**32 - 1), number=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_the_portfolio_is_never_worse_than_fewest_padded_tokens_by_the_fluid(count, seed, number):
    batch = skewed(count, seed)

    chosen = Portfolio(number, 16).bucket(batch, PLAN, COST)
    plain = Padded(DynamicBuckets(number, 16)).bucket(batch, PLAN, COST)

    assert fluid_seconds(chosen, PLAN) <= fluid_seconds(plain, PLAN) * (1 + 1e-6)
    assert len(chosen) <= number
    assert len(batch) == sum(bucket.count for bucket in chosen)


def test_a_budget_that_padding_alone_would_ignore_becomes_a_boundary():
    plan = toys.plan((1, 1, 4), (4, 1, 1))  # budgets 1024 and 4096
    batch = toys.batch(*[1000] * 40, *[1100] * 10, *[4000] * 10)

    plain = Padded(DynamicBuckets(2, 8)).bucket(batch, plan, COST)
    chosen = Portfolio(2, 8).bucket(batch, plan, COST)

    assert [bucket.width for bucket in plain] == [1104, 4000]  # 40 sequences lost to the four small replicas
    assert [bucket.width for bucket in chosen] == [1000, 4000]
    assert fluid_seconds(chosen, plan) < 0.95 * fluid_seconds(plain, plan)


def test_sequences_beyond_every_replica_are_bucketed_all_the_same():
    batch = toys.batch(*range(100, 3000, 50), 5000, 7900)

    buckets = Portfolio(6, 16).bucket(batch, PLAN, COST)

    assert len(batch) == sum(bucket.count for bucket in buckets)
    assert buckets[-1].width >= 7900
    assert all(bucket.sequences.length.max() <= bucket.width for bucket in buckets)


def test_an_empty_batch_has_no_bucket():
    assert Portfolio().bucket(toys.batch(), PLAN, COST) == ()


def test_loads_and_microbatches_are_those_of_padding():
    buckets = Portfolio(4, 16).bucket(skewed(40, 3, 1024), PLAN, COST)
    replica = PLAN.replicas[0]

    assert Padded().form(buckets, replica, COST) == Portfolio().form(buckets, replica, COST)
    assert (
        Padded().loads(buckets, replica, COST).each.tolist() == Portfolio().loads(buckets, replica, COST).each.tolist()
    )


@pytest.mark.parametrize(("number", "step"), [(0, 16), (16, 0)])
def test_it_needs_a_number_and_a_step(number, step):
    with pytest.raises(BadInput, match="at least 1"):
        Portfolio(number, step)
