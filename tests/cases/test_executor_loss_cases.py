"""Public cases on packing (B) and on the normalisation of losses (C), tried on the executor under their names."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from distributed.small_runs import PAIR, A, B, alone, equal, refs, same, step, tensors, together, updated_alike
from distributed.stages import given, stage, stream
from distributed.worlds import CONFIG, microbatch, random_state
from executor.data import Stream, runs_of
from executor.engine import StepResult
from lobra.errors import BadInput
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef


def test_b1_the_loss_of_a_pack_is_the_sum_of_the_separate_losses():
    a, b = SequenceRef(0, 0, 3, 2), SequenceRef(0, 1, 5, 4)
    packed = alone((A,), step(0, [a, b]))[1][0]
    separate = alone((A,), step(0, [a], [b]))[1][0]

    assert packed.label_tokens == separate.label_tokens == (6,)
    assert packed.loss_sums == pytest.approx(separate.loss_sums, rel=1e-14)


def test_b2_two_packed_rows_equal_four_separate_samples():
    four = refs(0, 3, 5, 4, 4)
    rows = MicroBatch((tuple(four[:2]), tuple(four[2:])), 8)
    engine, results = alone((A,), StepPlan(0, ((rows,),), ()))
    solo, expected = alone((A,), step(0, *([ref] for ref in four), updates=()))

    assert results[0].loss_sums == pytest.approx(expected[0].loss_sums, rel=1e-14)
    assert same(tensors(engine, "a", "gradient"), tensors(solo, "a", "gradient"))


def test_b3_a_flipped_token_of_the_first_document_changes_nothing_in_the_second():
    pack = MicroBatch((tuple(refs(0, 4, 6)),), 10)
    usual = given(pack)
    flipped = stream(pack)
    flipped.ids[2] = (flipped.ids[2] + 1) % CONFIG.vocabulary

    before, after = (stage().forward(None, each).detach() for each in (usual, replace(usual, stream=flipped)))

    assert float((before - after)[4:10].abs().max()) == 0.0
    assert float((before - after)[:4].abs().max()) > 0.0


def test_b4_twenty_copies_of_one_document_do_not_help_each_other():
    config = replace(CONFIG, vocabulary=20)
    copies = tuple(SequenceRef(0, 7, 16, 16) for _ in range(20))
    losses = stage(config).forward(None, given(MicroBatch((copies,), 320), config)).detach()

    assert torch.equal(losses.view(20, 16), losses[:16].expand(20, 16))


def test_b5_pads_form_one_tail_and_no_segments():
    assert stream(MicroBatch((tuple(refs(0, 5, 3)),), 12)).segments == ((0, 5), (5, 3))


def test_b6_a_document_that_ends_on_the_border_leaves_no_empty_segment():
    made = stream(MicroBatch((tuple(refs(0, 4, 4)),), 8))

    assert (made.segments, made.tokens) == (((0, 4), (4, 4)), 8)


def test_b7_a_pack_whose_tokens_are_shared_by_ranks_is_the_pack_of_one_rank():
    """Each of two ranks holds half of the tokens; the border between them lies inside the second sequence."""
    pack = MicroBatch((tuple(refs(0, 12, 52)),), 64, (0, 1))
    answer = together(PAIR, (A,), StepPlan(0, ((pack,), (pack,)), ()))[0]
    engine, expected = alone((A,), step(0, refs(0, 12, 52), updates=()))

    assert answer["results"][0].loss_sums == pytest.approx(expected[0].loss_sums, rel=1e-13)
    found = {where: torch.from_numpy(each) for where, each in answer["states"]["a"]["gradient"].items()}
    assert same(found, tensors(engine, "a", "gradient"))


def test_b8_empty_segments_are_refused_before_the_kernel():
    with pytest.raises(BadInput, match=r"sequence 0 of tenant 'a' has length 0"):
        alone((A,), StepPlan(0, ((MicroBatch(((SequenceRef(0, 0, 0, 0), SequenceRef(0, 1, 1, 1)),), 1),),)))


def test_b9_positions_begin_anew_in_every_sequence():
    made = stream(MicroBatch((tuple(refs(0, 3, 5)),), 8))
    kept = given(MicroBatch((tuple(refs(0, 3, 5)),), 8))
    running = Stream(made.ids, made.labels, torch.arange(8), runs_of([p for run in made.runs for p in run.pieces]))

    assert made.positions.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert torch.equal(kept.cosine[:3], kept.cosine[3:6])
    assert not torch.equal(running.positions, made.positions)


def test_c1_the_mean_is_over_tokens_and_the_last_window_counts():
    assert StepResult(0, (28.0,), (8,), (0.0,), (0,), (), (), ()).mean_losses == (3.5,)

    parts = [refs(0, 3 + n, first=n) for n in range(7)]
    windows = [step(n, part, updates=(0,) if n in (2, 5, 6) else ()) for n, part in enumerate(parts)]
    engine, results = alone((A,), *windows)
    joined, _ = alone((A,), step(0, *parts[:3]), step(1, *parts[3:6]), step(2, *parts[6:]))

    assert [result.updated for result in results] == [(), (), (0,), (), (), (0,), (0,)]
    assert engine.adapters[0].updates == 3
    assert updated_alike(tensors(engine, "a"), tensors(joined, "a"), A.learning_rate)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_c2_cutting_a_batch_into_micro_batches_changes_neither_loss_nor_gradient(size):
    six = refs(0, 2, 9, 4, 1, 7, 3)
    engine, results = alone((A,), step(0, *(six[i : i + size] for i in range(0, 6, size)), updates=()))
    whole, expected = alone((A,), step(0, six, updates=()))

    assert results[0].loss_sums == pytest.approx(expected[0].loss_sums, rel=1e-13)
    assert same(tensors(engine, "a", "gradient"), tensors(whole, "a", "gradient"))


def test_c3_every_labelled_token_of_a_pack_weighs_the_same():
    """The mean is over tokens: segments of 4, 2 and 2 with one label each weigh 1/3 each, as three samples would."""
    three = [SequenceRef(0, n, length, 1) for n, length in enumerate((4, 2, 2))]
    engine, results = alone((A,), step(0, three))
    parts = [alone((A,), step(0, [ref]))[0] for ref in three]

    assert results[0].label_tokens == (3,)
    means = [tensors(part, "a", "mean") for part in parts]
    assert same(tensors(engine, "a", "mean"), {where: sum(each[where] for each in means) / 3 for where in means[0]})


def test_c4_one_token_of_nine_weighs_a_ninth():
    result = StepResult(0, (9.0,), (9,), (0.0,), (0,), (), (), ())

    assert result.mean_losses == (1.0,)  # a mean over sequences of lengths 7 and 2 would say 2.25


def test_c5_a_fully_masked_task_contributes_nothing():
    masked = [ref._replace(labels=0) for ref in refs(0, 6, 9)]
    engine, results = alone((A, B), step(0, [*masked, *refs(1, 7, 5)]))
    solo, _ = alone((B,), step(0, refs(0, 7, 5)))

    assert equal(tensors(engine, "a"), random_state(A, CONFIG).tensors["value"])
    assert updated_alike(tensors(engine, "b"), tensors(solo, "b"), B.learning_rate)
    assert (results[0].loss_sums[0], results[0].mean_losses[0], results[0].skipped) == (0.0, 0.0, ())


def test_c6_a_rank_without_target_tokens_learns_the_loss_of_the_others():
    empty, full = [SequenceRef(0, 0, 5, 0)], refs(0, 5, first=1)
    split = StepPlan(0, tuple((microbatch(part, packed=True),) for part in (empty, full)))
    answers = together(PAIR, (A,), split)
    _, expected = alone((A,), step(0, full))

    losses = {answer["results"][0].mean_losses for answer in answers}
    assert len(losses) == 1
    assert losses.pop() == pytest.approx(expected[0].mean_losses, rel=1e-13)


@pytest.mark.parametrize(
    "layout", [PAIR, ((2, 1, None),), ((1, 2, None),), ((4, 1, None),)], ids=["dp2", "tp2", "pp2", "tp4"]
)
def test_c7_losses_gradients_and_updates_are_those_of_one_rank(layout):
    """Data parallel shares are unequal: 10 tokens on one replica, 30 on the other."""
    small, large = refs(0, 10), refs(0, 18, 12, first=1)
    parts = [(microbatch(small, packed=True),), (microbatch(large, packed=True),)]
    work = tuple(parts) if len(layout) == 2 else (parts[0] + parts[1],)
    answer = together(layout, (A,), StepPlan(0, work))[0]
    engine, expected = alone((A,), step(0, small, large))

    result = answer["results"][0]
    assert result.mean_losses == pytest.approx(expected[0].mean_losses, rel=1e-13)
    assert result.gradient_norms == pytest.approx(expected[0].gradient_norms, rel=1e-12)
    for where, value in tensors(engine, "a").items():
        assert np.abs(answer["states"]["a"]["value"][where] - value.numpy()).max() < 1e-9 * A.learning_rate
