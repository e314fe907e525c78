"""Stages, rates and refusals of the floor form."""

import timeit

import numpy as np
import pytest

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from lobra.errors import BadInput
from lobra.plan import MicroBatch, Replica, ReplicaConfig, Shape
from lobra.spec import SequenceRef

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
COST = cost_model(SEVEN, CLUSTER, form="floor")
SIX = tuple(toys.tenant(name) for name in "abcdef")


def replica(tp: int, pp: int, *, layers: tuple[int, ...] | None = None, **more) -> Replica:
    return Replica(ReplicaConfig(tp, pp, **more), tuple(range(tp * pp)), 16384, layers)


def shape(tokens: int, squares: int, shards: int = 1) -> Shape:
    return Shape(1, tokens, tokens, tokens, squares, 1, shards)


def whole(place: Replica, what: Shape, stage: int = 0, cost=COST) -> float:
    return sum(cost.stage_seconds(place, stage, what, kind) for kind in ("forward", "backward"))


def test_a_layer_of_7b_is_the_fitted_line():
    expected = 32 * (2.5260043e-3 + 4.8182594e-6 * 2048 + 1.3392908e-10 * 2048**2)

    assert whole(replica(1, 1), shape(2048, 2048**2)) == pytest.approx(expected)


def test_a_small_micro_batch_on_four_gpus_costs_the_floor():
    assert whole(replica(4, 1), shape(64, 64**2)) == pytest.approx(32 * 3.8382592e-3)


def test_padded_and_packed_of_equal_tokens_and_squares_cost_the_same():
    padded = MicroBatch(tuple((SequenceRef(0, number, 500, 500),) for number in range(4)), 500)
    packed = MicroBatch((tuple(SequenceRef(0, number, 500, 500) for number in range(4)),), 2000)

    assert (padded.shape.tokens, padded.shape.squares) == (packed.shape.tokens, packed.shape.squares)
    assert whole(replica(2, 1), padded.shape) == whole(replica(2, 1), packed.shape)


def test_packing_short_sequences_is_cheaper_than_one_long_one():
    assert whole(replica(1, 1), shape(2048, 16 * 128**2)) < whole(replica(1, 1), shape(2048, 2048**2))


def test_uneven_stages_cost_their_own_layers_and_rates_the_largest():
    uneven = replica(1, 3)
    sizes = [whole(uneven, shape(1024, 1024**2), stage) for stage in range(3)]
    rates = COST.rates(ReplicaConfig(1, 3), np.array([1024]))

    assert sizes == pytest.approx([11 / 32 * sum(sizes), 11 / 32 * sum(sizes), 10 / 32 * sum(sizes)])
    assert rates.fixed[0] + rates.row[0] == pytest.approx(sizes[0])


def test_an_own_cut_is_honoured():
    cut = replica(1, 2, layers=(0, 24))

    assert whole(cut, shape(1024, 1024**2), 0) == pytest.approx(3 * whole(cut, shape(1024, 1024**2), 1))


def test_recomputation_runs_forward_once_more():
    plain = replica(1, 1)
    forward = COST.stage_seconds(plain, 0, shape(2048, 2048**2), "forward")

    extra = whole(replica(1, 1, recompute=8), shape(2048, 2048**2)) - whole(plain, shape(2048, 2048**2))

    assert extra == pytest.approx(8 / 32 * forward)


def test_recomputation_falls_to_backward():
    plain, full = (COST.stage_seconds(replica(1, 1, recompute=k), 0, shape(2048, 2048**2), "forward") for k in (0, 32))

    assert plain == pytest.approx(full)


def test_a_short_stage_recomputes_at_most_its_own_layers():
    cut = replica(1, 2, layers=(0, 28), recompute=28)

    assert whole(cut, shape(1024, 1024**2), 1) == pytest.approx(whole(cut, shape(1024, 1024**2), 0) / 7)


def test_shards_divide_the_work_and_pay_for_their_messages():
    formula = cost_model(SEVEN, CLUSTER, form="floor", messages="formula")
    alone = whole(replica(1, 1), shape(16384, 16384**2))
    shared = whole(replica(1, 1), shape(16384, 16384**2, shards=8), cost=formula)
    fixed = 32 * 2.5260043e-3
    sent = 2 * 2 * 4096 * 4 * 16384 / 8 * (7 / 8) / (300e9 * 0.77) + 4 * 5e-6

    assert shared == pytest.approx(fixed + (alone - fixed) / 8 + 32 * sent)


def test_shards_over_two_nodes_pay_the_slow_link():
    far, near = (
        cost_model(SEVEN, cluster_spec("a100_40gb", 4, size), form="floor", messages="formula") for size in (4, 8)
    )
    what = shape(16384, 16384**2, shards=8)
    sent = 2 * 2 * 4096 * 4 * 16384 / 8 * (7 / 8)

    far, near = whole(replica(1, 1), what, cost=far), whole(replica(1, 1), what, cost=near)

    assert far - near == pytest.approx(32 * (sent / 0.77 * (1 / 25e9 - 1 / 300e9) + 4 * 5e-6))


def test_shards_that_do_not_divide_the_heads_are_refused():
    with pytest.raises(BadInput, match="shards is 3, but 32 heads of 'llama2_7b' at tp 1 divide into 1, 2, 4"):
        whole(replica(1, 1), shape(1024, 1024**2, shards=3))
    with pytest.raises(BadInput, match="shards is 8, but 4 heads"):
        COST.rates(ReplicaConfig(8, 1), np.array([512]), shards=8)


def test_sharded_weights_show_where_the_layer_is_too_short_to_hide_them():
    slow = cost_model(SEVEN, cluster_spec("a100_40gb", 4, 1, inter_gigabytes_per_second=5), form="floor")
    short, long = shape(64, 64**2), shape(16384, 16384**2)
    gather = 32 * 2 * (2 * SEVEN.layer_parameters * 3 / 4 / (5e9 * 0.77) + 3 * 1e-5)

    assert whole(replica(1, 1, fsdp=4), short, cost=slow) == pytest.approx(gather)
    assert whole(replica(1, 1, fsdp=4), long, cost=slow) == pytest.approx(max(gather, whole(replica(1, 1), long)))


def test_a_tp_without_a_price_is_refused_by_name():
    with pytest.raises(BadInput, match=r"configuration <16,1>: tp 16 has no price .* they have tp 1, 2, 4, 8"):
        COST.rates(ReplicaConfig(16, 1), np.array([512]))
    with pytest.raises(BadInput, match="tp 16 has no price"):
        whole(replica(16, 1), shape(64, 64**2))


def test_more_stages_or_recomputed_layers_than_there_are_is_refused():
    with pytest.raises(BadInput, match="'llama2_7b' has 32 layers"):
        COST.rates(ReplicaConfig(1, 64), np.array([512]))
    with pytest.raises(BadInput, match="recompute at most the layers of a stage"):
        COST.max_tokens(ReplicaConfig(1, 4, recompute=9), SIX)


def test_what_was_measured_is_called_so_and_what_follows_from_it_is_derived():
    status = {
        str(config): COST.provenance(config, SIX).status
        for config in (ReplicaConfig(1, 1), ReplicaConfig(8, 2), ReplicaConfig(1, 1, 4), ReplicaConfig(1, 1, fsdp=2))
    }

    assert status == {"<1,1>": "measured", "<8,2>": "derived", "<1,1,r4>": "derived", "<1,1,fsdp2>": "derived"}
    assert COST.provenance(ReplicaConfig(1, 1), SIX, shards=8).status == "derived"


def test_squares_beyond_the_profile_are_noted():
    inside, beyond = (COST.provenance(ReplicaConfig(1, 1, recompute), SIX).notes for recompute in (0, 32))

    assert not any("beyond the profiled hull" in note for note in inside)
    assert any("S2 beyond the profiled hull (sequences over 4096 tokens at tp 1)" in note for note in beyond)
    shared = COST.provenance(ReplicaConfig(1, 1), SIX, shards=8).notes  # eight hold 16,384 tokens together
    assert any("S2 beyond the profiled hull" in note for note in shared)


def test_rates_cannot_be_written_to():
    rates = COST.rates(ReplicaConfig(1, 1), np.array([128, 256]))

    with pytest.raises(ValueError, match="read-only"):
        rates.row[0] = 0


def test_the_price_of_a_stage_is_quick_to_ask():
    place, what = replica(8, 2), shape(2048, 2048**2)

    seconds = min(timeit.repeat(lambda: COST.stage_seconds(place, 1, what, "backward"), number=2000, repeat=5)) / 2000

    assert seconds < 20e-6  # about 3 on an idle core; the bar leaves room for a busy one
