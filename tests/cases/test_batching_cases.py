"""Reports from other projects about bucketing and packing, turned into tests."""

import numpy as np
import pytest

import toys
from policies.batching.boundaries import DynamicBuckets, FixedBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.evaluate import count_seconds, work_seconds

COST = toys.ToyCost()


@pytest.mark.parametrize(
    "batching", [Padded(DynamicBuckets(8, 64)), Padded(DynamicBuckets(8, 1)), Padded(FixedBuckets())]
)
@pytest.mark.parametrize("budget", [256, 1 << 30])
def test_more_buckets_than_distinct_lengths_leave_none_empty_and_a_huge_budget_divides_nothing_by_zero(
    batching, budget
):
    """k2-fsa/icefall PR 1468: bucketing by duration divided by zero at large token budgets."""
    batch, plan = toys.batch(64, 64, 128, 256), toys.plan((1, 1, 1), budget=budget)

    buckets = batching.bucket(batch, plan, COST)
    counts = np.array([bucket.count for bucket in buckets])
    work = batching.form(buckets, plan.replicas[0], COST)

    assert min(counts) >= 1
    assert 4 == counts.sum() == sum(len(m.rows) for m in work)
    priced = float(count_seconds(batching.loads(buckets, plan.replicas[0], COST), counts))
    assert work_seconds(work, plan.replicas[0], COST) == pytest.approx(priced)


def test_eight_buckets_for_three_distinct_lengths_are_three_buckets():
    """k2-fsa/icefall PR 1468."""
    buckets = Padded(DynamicBuckets(8, 64)).bucket(toys.batch(64, 64, 128, 256), toys.plan((1, 1, 1)), COST)

    assert [(bucket.width, bucket.count) for bucket in buckets] == [(64, 2), (128, 1), (256, 1)]


def test_rounding_a_pack_up_adds_no_sequence():
    """hiyouga/LlamaFactory issue 10452: pad tokens became thousands of sequences of one token."""
    plan = toys.plan((1, 1, 1))
    batching = Packed(round_to=12)

    (pack,) = batching.form(batching.bucket(toys.batch(5, 3), plan, COST), plan.replicas[0], COST)

    assert [sequence.length for sequence in pack.rows[0]] == [5, 3]
    assert (pack.shape.tokens, pack.shape.useful, pack.shape.squares) == (12, 8, 5**2 + 3**2)


def test_sequences_that_fill_a_row_exactly_leave_no_empty_one_behind():
    """NVIDIA/Megatron-LM PR 5298: a sample that ended on a document's border got an empty last segment."""
    plan = toys.plan((1, 1, 1), budget=8)

    (pack,) = Packed().form(Packed().bucket(toys.batch(4, 4), plan, COST), plan.replicas[0], COST)

    assert ([sequence.length for sequence in pack.rows[0]], pack.width) == ([4, 4], 8)
