"""One score for simulator and executor."""

import pytest

from lobra.errors import BadInput
from lobra.schedule import closed_form, even_cut, one_forward_one_backward, stage_sizes


def score(stage: int, stages: int, microbatches: int) -> str:
    return " ".join(f"{kind[0].upper()}{m}" for kind, m in one_forward_one_backward(stage, stages, microbatches))


def test_the_last_stage_alternates_at_once():
    assert score(2, 3, 3) == "F0 B0 F1 B1 F2 B2"


def test_the_first_stage_warms_up_with_one_forward_for_each_stage_behind_it():
    assert score(0, 3, 4) == "F0 F1 F2 B0 F3 B1 B2 B3"


def test_fewer_micro_batches_than_stages_are_legal():
    assert score(0, 4, 2) == "F0 F1 B0 B1"
    assert score(0, 4, 0) == ""


def test_the_closed_form_of_equal_micro_batches_is_the_textbook_one():
    assert closed_form([2.0] * 8, stages=4) == (8 + 4 - 1) * 2.0
    assert closed_form([], stages=4) == 0.0


@pytest.mark.parametrize(("layers", "stages"), [(10, 3), (7, 2), (62, 4), (30, 4)])
def test_an_even_cut_gives_each_layer_to_one_stage_and_sizes_differ_by_one(layers: int, stages: int):
    sizes = stage_sizes(layers, stages)

    assert sum(sizes) == layers
    assert max(sizes) - min(sizes) <= 1
    assert even_cut(layers, stages)[0] == 0


def test_more_stages_than_layers_cannot_be_cut():
    with pytest.raises(BadInput, match="use pp <= 3"):
        even_cut(3, 4)


def test_an_own_cut_is_followed():
    assert stage_sizes(8, 3, (0, 1, 6)) == (1, 5, 2)
