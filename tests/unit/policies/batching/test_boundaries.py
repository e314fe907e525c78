"""Where buckets end: fixed lists and dynamic boundaries."""

import json

import numpy as np
import pytest

from lobra.errors import BadInput
from policies.batching.boundaries import PLANNING, SEVEN, SIXTEEN, DynamicBuckets, FixedBuckets

AMPLE = np.array([1 << 20])


def boundaries(rule, lengths, budgets):
    distinct, counts = np.unique(lengths, return_counts=True)
    return rule.boundaries(distinct, counts, np.array(budgets)).tolist()


def test_fixed_buckets_are_the_list_itself_where_it_suffices():
    assert list(SEVEN) == boundaries(FixedBuckets(), [5, 700, 16384], [2048, 4096, 16384])
    assert list(SIXTEEN) == boundaries(FixedBuckets(SIXTEEN), [5, 700], [2048, 16384])
    assert list(PLANNING) == boundaries(FixedBuckets(PLANNING), [5, 700], [2048, 16384])


def test_the_published_lists_have_seven_and_sixteen_widths():
    assert [256 << power for power in range(7)] == list(SEVEN)
    assert (len(SIXTEEN), SIXTEEN[0], SIXTEEN[-1]) == (16, 144, 16384)
    assert (len(PLANNING), PLANNING[0], PLANNING[-1]) == (16, 256, 16384)


def test_a_sequence_beyond_the_list_extends_it_by_its_own_length():
    assert boundaries(FixedBuckets((256, 512)), [100, 700], [1024]) == [256, 512, 700]


def test_a_width_that_no_replica_holds_is_preceded_by_the_largest_budget():
    assert boundaries(FixedBuckets((256, 512, 1024)), [100, 590], [300, 600]) == [256, 512, 600, 1024]


def test_a_fixed_list_ignores_the_smaller_budgets_unless_aligned():
    lengths, budgets = [100, 2500], [2560, 16384]

    assert 2560 not in boundaries(FixedBuckets(), lengths, budgets)
    assert sorted([*SEVEN, 2560]) == boundaries(FixedBuckets(align=True), lengths, budgets)


@pytest.mark.parametrize("widths", [(), (0, 4), (4, 4), (8, 4)])
def test_a_list_that_does_not_ascend_is_refused(widths):
    with pytest.raises(BadInput, match="widths is"):
        FixedBuckets(widths)


@pytest.mark.parametrize(("number", "step"), [(0, 16), (16, 0)])
def test_dynamic_buckets_need_a_number_and_a_step(number, step):
    with pytest.raises(BadInput, match="at least 1"):
        DynamicBuckets(number, step)


def test_dynamic_boundaries_are_multiples_of_the_step():
    assert boundaries(DynamicBuckets(3, 16), [100, 105, 110, 500, 505, 2041, 2048], [2048]) == [112, 512, 2048]


def test_rounding_stops_at_the_largest_budget():
    assert boundaries(DynamicBuckets(16, 64), [4090], [2048, 4090]) == [4090]


def test_rounding_takes_no_smaller_replica_from_a_sequence_either():
    assert boundaries(DynamicBuckets(16, 256), [999, 1001, 1999], [1000, 4096]) == [1000, 1024, 2048]


def test_dynamic_boundaries_pad_as_little_as_the_released_planner(reference_data):
    instances = json.loads((reference_data / "peer_lobra" / "bucket_dp.json").read_text())
    instances = [instance for instance in instances if instance.get("lengths")]
    assert len(instances) >= 6

    for instance in instances:
        lengths = np.array(instance["lengths"])
        ends = DynamicBuckets(instance["R"], instance["interval"]).boundaries(
            *np.unique(lengths, return_counts=True), AMPLE
        )

        assert instance["pad_tokens"] == (ends[np.searchsorted(ends, lengths)] - lengths).sum()
