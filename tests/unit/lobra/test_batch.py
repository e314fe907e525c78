"""Columns of sequences."""

import numpy as np
import pytest

from lobra.batch import Batch, Histogram, concatenate, empty_batch
from lobra.errors import BadInput
from lobra.spec import SequenceRef
from lobra.trace import StepReport
from toys import batch


def test_a_share_of_a_batch_keeps_its_sequences():
    whole = batch(10, 20, 30, tenants=[0, 1, 1])

    assert whole.take(np.array([2, 0])).refs() == [SequenceRef(1, 2, 30, 30), SequenceRef(0, 0, 10, 10)]
    assert whole.tokens == 60


def test_shares_join_again():
    whole = batch(10, 20, 30)

    joined = concatenate(0, [whole.take(np.array([0])), empty_batch(0), whole.take(np.array([1, 2]))])

    assert joined.refs() == whole.refs()
    assert len(concatenate(0, [])) == 0


def test_columns_cannot_be_changed_from_outside():
    lengths = np.array([10, 20], dtype=np.int32)
    made = Batch(0, np.zeros(2), np.arange(2), lengths, lengths)
    lengths[0] = 99

    assert made.length.tolist() == [10, 20]
    with pytest.raises(ValueError, match="read-only"):
        made.length[0] = 1


def test_columns_of_different_length_and_empty_sequences_are_refused():
    with pytest.raises(BadInput, match="columns differ"):
        Batch(0, np.zeros(1), np.arange(2), np.ones(2), np.ones(2))
    with pytest.raises(BadInput, match="length 0"):
        batch(3, 0)


def test_a_histogram_must_be_a_distribution():
    with pytest.raises(BadInput, match="sum to"):
        Histogram(np.array([1, 2]), np.array([0.5, 0.6]))


def test_a_report_bills_every_gpu_and_splits_what_it_bills():
    report = StepReport(0, seconds=2.0, gpus=16, busy_gpu_seconds=24.0, tokens=100, useful_tokens=80)

    assert report.gpu_seconds == 32.0
    assert report.idle_share == 0.25
    assert report.padding_share == pytest.approx(0.2)
