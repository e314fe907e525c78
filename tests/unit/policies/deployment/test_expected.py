"""What a planner expects: its own draws, the longest sequence, the paper's expected batch."""

from dataclasses import replace

import numpy as np
import pytest

import toys
from lobra.batch import Histogram
from lobra.errors import BadInput
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.expected import LongestSequence, longest_sequence, paper_batch, planning_batches

WORKLOAD = toys.workload()


def test_the_same_seed_draws_the_same_batches_and_another_seed_others():
    first, again, other = (planning_batches(WORKLOAD, 2, seed) for seed in (3, 3, 4))

    assert all(np.array_equal(a.length, b.length) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0].length, other[0].length)
    assert not np.array_equal(first[0].length, first[1].length)


def test_every_tenant_brings_its_batch_size_of_its_own_lengths():
    (batch,) = planning_batches(WORKLOAD, 1, 0)

    for number, tenant in enumerate(WORKLOAD.tenants):
        own = batch.length[batch.tenant == number]
        assert len(own) == tenant.batch_size
        assert set(own.tolist()) <= set(WORKLOAD.choices[number])
    assert len(set(zip(batch.tenant.tolist(), batch.index.tolist(), strict=True))) == len(batch)


def test_draws_of_a_tenant_do_not_depend_on_who_else_is_there():
    together, alone = planning_batches(WORKLOAD, 1, 0), planning_batches(WORKLOAD.only([2]), 1, 0)

    assert together[0].length[together[0].tenant == 2].tolist() == alone[0].length.tolist()


def test_draws_follow_the_histogram():
    workload = toys.ToyWorkload((toys.tenant("a", batch_size=4000),), ((10, 10, 10, 70),))

    (batch,) = planning_batches(workload, 1, 0)

    assert abs(np.mean(batch.length == 70) - 0.25) < 0.03


def test_the_longest_sequence_is_the_largest_context_limit_unless_histograms_are_trusted():
    assert longest_sequence(WORKLOAD) == LongestSequence("long", 4096, "its context_limit")
    assert longest_sequence(WORKLOAD, "histogram") == LongestSequence("long", 4000, "the longest of its lengths")


def test_lengths_of_probability_zero_do_not_come():
    class Zero(toys.ToyWorkload):
        def lengths(self, tenant):
            del tenant
            return Histogram(np.array([10, 900]), np.array([1.0, 0.0]))

    workload = Zero((toys.tenant(),), ((10,),))

    assert longest_sequence(workload, "histogram").tokens == 10


def test_wrong_knobs_are_refused():
    with pytest.raises(BadInput, match="longest is 'seen'; choose limit or histogram"):
        longest_sequence(WORKLOAD, "seen")
    with pytest.raises(BadInput, match="number of planning batches is 0"):
        planning_batches(WORKLOAD, 0, 0)
    with pytest.raises(BadInput, match="seed is -1"):
        planning_batches(WORKLOAD, 1, -1)


def test_the_papers_expected_batch_rounds_counts_per_tenant_and_expects_one_of_the_longest():
    tenants = (toys.tenant("a", batch_size=3), toys.tenant("b", batch_size=10))
    workload = toys.ToyWorkload(tenants, ((100, 200), (200, 200, 200, 1000)))
    batching, plan = Padded(FixedBuckets((256, 1024, 4096))), toys.plan((8, 1, 2))

    buckets, counts = paper_batch(workload, batching, plan, toys.ToyCost(), 4096)

    assert [bucket.width for bucket in buckets] == [256, 1024, 4096]
    # a: 3 short; b: 10 * 3/4 and 10 * 1/4 round to even, 8 and 2; the sample has one of 4,096, which rounds to none
    assert counts.tolist() == [[3 + 8, 2, 1]]


def test_the_papers_sample_counts_lengths_rounded_up_to_sixteen():
    spread = tuple(range(1, 1025))  # each too rare to be sampled by itself: 0.1 copies of a length
    workload = toys.ToyWorkload((replace(toys.tenant(), batch_size=1),), (spread,))

    buckets, counts = paper_batch(
        workload, Padded(FixedBuckets((512, 1024))), toys.plan((8, 1, 2)), toys.ToyCost(), 1024
    )

    assert [bucket.count for bucket in buckets] == [64, 64]
    assert counts.tolist() == [[0, 1]]
