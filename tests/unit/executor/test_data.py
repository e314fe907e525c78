"""From micro-batches to streams."""

import pytest
import torch

from executor.data import IGNORED, Run, SyntheticTokens, build, pieces_of, runs_of, stream_tokens
from lobra.errors import BadInput
from lobra.plan import MicroBatch
from lobra.spec import SequenceRef

NAMES = ("a", "b")
SOURCE = SyntheticTokens(50, 3)


def stream(microbatch, tp=1, source=SOURCE):
    return build(microbatch, tp, NAMES, source, 50)


def refs(*lengths, tenant=0):
    return tuple(SequenceRef(tenant, i, length, length) for i, length in enumerate(lengths))


def test_packed_sequences_follow_each_other_and_the_rest_is_one_tail():
    made = stream(MicroBatch((refs(5, 3), refs(4, 4, tenant=1)), 12))

    assert made.segments == ((0, 5), (5, 3), (8, 4), (12, 4))
    assert made.tokens == 24
    assert made.positions.tolist() == [*range(5), *range(3), *range(4), *range(4)] + [0] * 8
    assert (made.labels[16:] == IGNORED).all()


def test_padded_rows_keep_their_width_and_label_only_their_sequence():
    made = stream(MicroBatch(tuple((ref,) for ref in refs(5, 3)), 8))

    assert made.segments == ((0, 8), (8, 8))
    assert (made.labels != IGNORED).tolist() == [True] * 5 + [False] * 3 + [True] * 3 + [False] * 5


def test_the_stream_has_a_multiple_of_eight_tokens_a_rank():
    microbatch = MicroBatch((refs(5, 3),), 9)
    shared = MicroBatch((refs(5, 3),), 9, (0, 1))

    assert [stream_tokens(each, tp) for each, tp in ((microbatch, 1), (microbatch, 4), (shared, 4))] == [16, 32, 64]


def test_neighbours_of_one_tenant_are_one_run():
    microbatch = MicroBatch((refs(5, 3), refs(2) + refs(4, tenant=1)), 9)

    runs = runs_of([piece for _, piece in pieces_of(microbatch)])

    assert [(run.tenant, run.start, run.end, len(run.pieces)) for run in runs] == [(0, 0, 10, 3), (1, 10, 14, 1)]
    assert isinstance(runs[0], Run)


def test_a_synthetic_sequence_predicts_its_next_token_and_masks_its_prompt():
    ids, labels = SOURCE.tokens("a", 7, 10, 4)
    longer = SOURCE.tokens("a", 7, 10, 10)[1]

    assert labels[:6].tolist() == [IGNORED] * 6
    assert torch.equal(labels[6:], longer[6:])
    assert torch.equal(longer[:-1], ids[1:])


def test_a_sequence_depends_on_tenant_and_index_alone():
    drawn = {tuple(SOURCE.tokens(*who, 6, 6)[0].tolist()) for who in (("a", 0), ("a", 1), ("b", 0), ("a", 0))}

    assert len(drawn) == 3


class Wrong:
    """A source that contradicts the plan in one way."""

    def __init__(self, ids, labels):
        self.answer = torch.tensor(ids), torch.tensor(labels)

    def tokens(self, *asked):
        assert asked == ("a", 0, 3, 3)
        return self.answer


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (Wrong([1, 2], [1, 2]), r"tenant 'a', sequence 0: its source gives 2 tokens and 2 labels, but the plan says 3"),
        (Wrong([1, 2, 3], [1, -100, 2]), r"its source labels 2 tokens, but the plan counts 3"),
        (Wrong([1, 2, 50], [1, 1, 1]), r"a token lies outside the vocabulary of 50: 1\.\.50"),
        (Wrong([1, 2, 3], [1, 1, 50]), r"a label lies outside the vocabulary of 50: 1\.\.50"),
    ],
)
def test_a_source_that_contradicts_the_plan_is_refused(source, text):
    with pytest.raises(BadInput, match=text):
        stream(MicroBatch((refs(3),), 3), source=source)
