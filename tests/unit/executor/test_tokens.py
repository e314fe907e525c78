"""Stored sequences as the executor's token source: ids, and the next token where it carries loss."""

import pytest

from executor.data import IGNORED, build
from executor.tokens import StoredTokens
from lobra.errors import BadInput
from lobra.plan import MicroBatch
from lobra.spec import SequenceRef
from lobra.store import StoreWriter, read_store


@pytest.fixture
def source(tmp_path):
    with StoreWriter(tmp_path / "maths", 10) as store:
        store.append([1, 5, 6, 7, 2], [(3, 5)])
        store.append([3, 4, 2, 5, 6, 2], [(2, 3), (4, 6)])
    with StoreWriter(tmp_path / "code", 10) as store:
        store.append([9, 9, 2], [(1, 3)])
    return StoredTokens({name: read_store(tmp_path / name) for name in ("maths", "code")})


def plain(pair):
    return [column.tolist() for column in pair]


def test_a_label_is_the_next_token_of_a_span_and_the_last_token_predicts_nothing(source):
    assert plain(source.tokens("maths", 0, 5, 2)) == [[1, 5, 6, 7, 2], [IGNORED, IGNORED, 7, 2, IGNORED]]
    assert plain(source.tokens("maths", 1, 6, 3)) == [[3, 4, 2, 5, 6, 2], [IGNORED, 2, IGNORED, 6, 2, IGNORED]]


def test_the_index_goes_on_through_the_epochs(source):
    assert plain(source.tokens("maths", 7, 6, 3)) == plain(source.tokens("maths", 1, 6, 3))
    assert plain(source.tokens("code", 123, 3, 2)) == [[9, 9, 2], [9, 2, IGNORED]]


@pytest.mark.parametrize(
    ("length", "labels", "expected"),
    [(4, 1, [IGNORED, IGNORED, 7, IGNORED]), (3, 0, [IGNORED] * 3), (1, 0, [IGNORED])],
)
def test_a_shorter_length_cuts_the_end_and_the_labels_there(source, length, labels, expected):
    assert plain(source.tokens("maths", 0, length, labels)) == [[1, 5, 6, 7][:length], expected]


def test_a_plan_that_counts_other_labels_is_refused(source):
    with pytest.raises(
        BadInput, match=r"tenant 'maths', sequence 0: the plan counts 3 labels, but .* gives 2 in 5 tokens"
    ):
        source.tokens("maths", 0, 5, 3)


def test_a_plan_that_is_longer_than_the_store_is_refused(source):
    with pytest.raises(BadInput, match=r"the plan says 6 tokens, but .* holds 5; plan again"):
        source.tokens("maths", 2, 6, 2)


def test_a_negative_index_is_refused(source):
    with pytest.raises(BadInput, match="counts from 0"):
        source.tokens("maths", -1, 5, 2)


def test_a_micro_batch_is_built_from_stores(source):
    rows = ((SequenceRef(0, 0, 5, 2), SequenceRef(1, 0, 3, 2)),)
    stream = build(MicroBatch(rows, 8), 1, ["maths", "code"], source, 10)

    assert stream.ids[:8].tolist() == [1, 5, 6, 7, 2, 9, 9, 2]
    assert stream.labels[:8].tolist() == [IGNORED, IGNORED, 7, 2, IGNORED, 9, 2, IGNORED]
