"""Public cases on model architectures (S20, S22, S24), tried on the executor under their names."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from distributed.pool import shared_pool
from distributed.reference import Reference
from distributed.small_runs import ONE, A, alone, refs, step, together
from distributed.stages import place, stage, stream
from distributed.worlds import CONFIG, Job, microbatch, plan_of, sequences
from executor.config import ModelConfig
from executor.data import Stream
from executor.model import make_input
from executor.shards import adapter_blocks
from lobra.errors import BadInput
from lobra.plan import MicroBatch, StepPlan


@pytest.mark.parametrize(("heads", "kv_heads", "tp"), [(4, 1, 2), (8, 2, 4), (4, 2, 4)])
def test_s20_fewer_kv_heads_than_ranks_change_neither_loss_nor_gradient(heads, kv_heads, tp):
    config = replace(CONFIG, heads=heads, kv_heads=kv_heads, head_size=64 // heads)
    work = StepPlan(0, ((microbatch(sequences(1, 4, seed=3), packed=True),),), ())
    answer = together(((tp, 1, None),), (A,), work, config=config)[0]
    reference = Reference(Job(plan_of(ONE, (A,), config), (), config))
    losses = reference.losses(sequences(1, 4, seed=3))

    assert answer["results"][0].loss_sums == pytest.approx(losses, rel=1e-12)
    for where, value in reference.gradients("a").items():
        error = np.abs(answer["states"]["a"]["gradient"][where] - value.numpy()).max()
        assert error < 1e-12 * float(value.abs().max())


def test_s20_a_tp_that_divides_no_heads_is_refused_with_those_that_do():
    with pytest.raises(BadInput, match=r"tp 8 cannot split 52 heads, .*use one of 1, 2, 4, 13, 26, 52"):
        replace(CONFIG, heads=52, kv_heads=52, intermediate=52).check_tp(8)


@pytest.mark.parametrize("layout", [((1, 1, None),), ((2, 1, None),)], ids=["tp1", "tp2"])
def test_s20_equal_logits_cost_the_logarithm_of_an_odd_vocabulary(layout):
    """The vocabulary of 101 is not padded: ln 101, not ln 102."""
    plan = plan_of(layout, (A,))
    work = StepPlan(0, ((microbatch(refs(0, 7), packed=True),),))
    losses = shared_pool().run("distributed.jobs", "with_zero_head", Job(plan, (work,)))

    assert losses[0] == pytest.approx((4.615120516841260,), rel=1e-14)


def test_s22_a_tied_model_is_the_same_on_one_two_and_three_stages():
    config = replace(CONFIG, tied_embeddings=True)
    work = StepPlan(0, ((microbatch(sequences(1, 4, seed=3), packed=True),),), ())
    answers = [
        together(layout, (A,), work, config=config)[0]["results"][0].loss_sums
        for layout in (ONE, ((1, 2, None),), ((1, 3, None),), ((2, 2, None),))
    ]

    expected = Reference(Job(plan_of(ONE, (A,), config), (), config)).losses(sequences(1, 4, seed=3))
    assert answers == [pytest.approx(expected, rel=1e-12)] * 4


def test_s24_epsilon_is_the_configured_one():
    """At a mean square of 4e-4, an epsilon of 1e-5 for 1e-6 scales the output by 0.98896."""
    x = torch.full((8, CONFIG.hidden), 2e-2, dtype=torch.float64)
    scaled = [
        stage(replace(CONFIG, rms_epsilon=epsilon))._normal(x, torch.ones(CONFIG.hidden, dtype=torch.float64))
        for epsilon in (1e-5, 1e-6)
    ]

    assert float((scaled[0] / scaled[1]).mean()) == pytest.approx(0.98896, abs=1e-5)


def test_s24_heads_may_be_wider_than_the_hidden_size_says():
    config = ModelConfig(1, 2560, 64, 32, 8, 16, 128)
    blocks = adapter_blocks(config, "q_proj", 16, 0, 1)

    assert sum(rows * columns for rows, columns in (block.shape for block in blocks)) == 106_496
    narrow = replace(CONFIG, head_size=16)  # 8 heads of 16 on a hidden size of 64
    losses = alone((A,), step(0, refs(0, 9)), config=narrow)[1][0].loss_sums
    assert losses == pytest.approx(Reference(Job(plan_of(ONE, (A,), narrow), (), narrow)).losses(refs(0, 9)), rel=1e-12)


def test_s24_qkv_biases_count():
    plain = replace(CONFIG, qkv_bias=False)
    with_bias, without = (alone((A,), step(0, refs(0, 9)), config=config)[1][0].loss_sums for config in (CONFIG, plain))

    assert with_bias != pytest.approx(without, rel=1e-6)
    assert without == pytest.approx(Reference(Job(plan_of(ONE, (A,), plain), (), plain)).losses(refs(0, 9)), rel=1e-12)


def test_s24_far_positions_turn_by_their_own_angle():
    far = (0, 100, 9000)
    pack = MicroBatch((tuple(refs(0, 3)),), 3)
    usual = stream(pack)
    moved = Stream(usual.ids, usual.labels, torch.tensor([*far, 0, 0, 0, 0, 0]), usual.runs)
    turned = make_input(moved, CONFIG, place(CONFIG), step=0, dtype=torch.float64, context=None)

    for row, position in enumerate(far):
        for pair, frequency in enumerate(CONFIG.rope.frequencies(CONFIG.head_size)):
            assert float(turned.cosine[row, 0, pair]) == pytest.approx(math.cos(position * frequency), abs=1e-12)
            assert float(turned.sine[row, 0, pair]) == pytest.approx(math.sin(position * frequency), abs=1e-12)
