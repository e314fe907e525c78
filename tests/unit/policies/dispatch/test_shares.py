"""From counts to sequences."""

import numpy as np
import pytest

from policies.dispatch.shares import shares_of
from unit.policies.dispatch.worlds import buckets


def test_machines_get_neighbouring_sequences_in_their_order_and_empty_parts_are_left_out():
    parts = buckets((64, 5), (128, 2))

    shares = shares_of(parts, np.array([[2, 0], [0, 0], [3, 2]]))

    found = [[(part.width, part.sequences.index.tolist()) for part in share] for share in shares]
    assert found == [[(64, [0, 1])], [], [(64, [2, 3, 4]), (128, [0, 1])]]


def test_slices_are_views_not_copies():
    parts = buckets((64, 5))

    (share,) = shares_of(parts, np.array([[5]]))

    assert np.shares_memory(share[0].sequences.length, parts[0].sequences.length)


@pytest.mark.parametrize("counts", [[[4]], [[6]], [[7], [-2]]])
def test_counts_that_lose_or_invent_sequences_are_impossible(counts):
    with pytest.raises(AssertionError, match="do not add up to its 5 sequences"):
        shares_of(buckets((64, 5)), np.array(counts))
