"""Dealing evenly and dealing by length."""

import numpy as np
import pytest

import toys
from lobra.errors import Infeasible
from policies.batching.padded import Padded
from policies.dispatch.cheapest import CheapestFit
from policies.dispatch.uniform import Uniform, deal
from unit.policies.dispatch.worlds import buckets, table

COST = toys.ToyCost()


def test_remainders_go_on_where_the_bucket_before_ended():
    dealt = deal(np.array([4, 4, 4]), np.ones((3, 3), bool))

    assert dealt.tolist() == [[2, 1, 1], [1, 2, 1], [1, 1, 2]]


def test_only_replicas_that_hold_a_bucket_take_part():
    plan = toys.plan((1, 1, 2), (4, 1, 1))  # budgets 1024, 1024, 4096

    counts = table(Uniform().assign(buckets((512, 6), (4096, 3)), plan, Padded(), COST), [512, 4096])

    assert counts == [[2, 0], [2, 0], [2, 3]]


def test_fewer_sequences_than_replicas_leave_replicas_idle():
    assignment = Uniform().assign(buckets((512, 2)), toys.plan((1, 1, 5)), Padded(), COST)

    assert [len(share) for share in assignment.shares] == [1, 1, 0, 0, 0]


def test_by_length_a_bucket_goes_to_the_smallest_budget_that_holds_it():
    plan = toys.plan((1, 1, 2), (2, 1, 1), (4, 1, 1))

    counts = table(
        CheapestFit().assign(buckets((512, 5), (2048, 3), (4096, 2)), plan, Padded(), COST), [512, 2048, 4096]
    )

    assert counts == [[3, 0, 0], [2, 0, 0], [0, 3, 0], [0, 0, 2]]


def test_by_length_a_range_without_sequences_leaves_its_replicas_idle():
    plan = toys.plan((1, 1, 2), (2, 1, 1), (4, 1, 1))

    counts = table(CheapestFit().assign(buckets((512, 2), (4096, 2)), plan, Padded(), COST), [512, 4096])

    assert counts == [[1, 0], [1, 0], [0, 0], [0, 2]]


@pytest.mark.parametrize("policy", [Uniform(), CheapestFit()])
def test_a_bucket_that_fits_nowhere_is_refused_with_its_width_and_the_longest_that_fits(policy):
    with pytest.raises(Infeasible, match=r"width 8192 fits no replica of the plan; the longest that fits is 2048"):
        policy.assign(buckets((512, 2), (8192, 1)), toys.plan((1, 1, 2), (2, 1, 1)), Padded(), COST)


def test_slices_keep_tenants_together():
    part = buckets((512, 9), tenants=3)

    shares = Uniform().assign(part, toys.plan((1, 1, 3)), Padded(), COST).shares

    assert [share[0].sequences.tenant.tolist() for share in shares] == [[0] * 3, [1] * 3, [2] * 3]
