"""Synthetic tokens that can be learned."""

import pytest
import torch

from executor.data import IGNORED
from executor.patterns import PERIOD, WRONG, PatternedTokens
from lobra.errors import BadInput

SOURCE = PatternedTokens(vocabulary=100, seed=3)


def test_a_sequence_is_its_own_whatever_was_asked_before():
    first = SOURCE.tokens("a", 7, 50, 50)
    SOURCE.tokens("b", 1, 9, 9)
    assert all(torch.equal(one, two) for one, two in zip(first, SOURCE.tokens("a", 7, 50, 50), strict=True))


def test_labels_are_the_next_tokens_of_the_last_positions():
    ids, labels = SOURCE.tokens("a", 0, 20, 6)
    assert (labels[:14] == IGNORED).all()
    assert torch.equal(labels[14:19], ids[15:])
    assert len(ids) == len(labels) == 20


def test_each_tenant_has_a_melody_of_its_own():
    heard = {name: set(SOURCE.tokens(name, 0, 400, 400)[0].tolist()) for name in "ab"}
    assert [len(heard[name]) for name in "ab"] == [PERIOD, PERIOD]
    assert heard["a"] != heard["b"]


def test_most_tokens_follow_from_the_one_before():
    ids, labels = SOURCE.tokens("a", 0, 4000, 4000)
    following: dict[int, list[int]] = {}
    for token, after in zip(ids.tolist(), labels.tolist(), strict=True):
        following.setdefault(token, []).append(after)
    expected = sum(max(map(afters.count, set(afters))) for afters in following.values()) / 4000
    assert expected == pytest.approx((1 - WRONG) ** 2 + WRONG**2 / PERIOD, abs=0.03)


def test_a_vocabulary_smaller_than_a_melody_is_refused():
    with pytest.raises(BadInput, match="vocabulary of 16"):
        PatternedTokens(vocabulary=10)
