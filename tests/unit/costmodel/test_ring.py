"""Ring attention: hops behind blocks, by hand; the choice between ring and Ulysses; what executes it."""

import numpy as np
import pytest

from costmodel.catalogue import cost_model
from costmodel.context import possible_shards, shared_prices
from costmodel.hardware import cluster_spec, model_spec
from costmodel.layer import LayerPrice
from costmodel.messages import Messages
from costmodel.ring import Ring, computed, pack_messages, ring_hop, row_messages, unhidden
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape

SEVEN, SEVENTY, CLUSTER = model_spec("llama2_7b"), model_spec("llama2_70b"), cluster_spec("a100_40gb", 2, 8)
PRICE = LayerPrice(1e-3, 1e-3, 0.0, 1e-6, 4e-10, 0.5, 0.25)
RING = Ring(start=1e-5, token=1e-8, shards=4)


def shape(tokens: int, length: int, shards: int) -> Shape:
    return Shape(tokens // length, length, tokens, tokens, tokens * length, 1, shards)


def seconds(cost, what: Shape, *, tp: int = 1, **more) -> float:
    place = Replica(ReplicaConfig(tp, 1, **more), tuple(range(tp)), 16384)
    return sum(cost.stage_seconds(place, 0, what, kind) for kind in ("forward", "backward"))


def test_a_hop_carries_the_keys_and_values_of_a_part_of_the_tokens():
    ring = ring_hop(SEVENTY, CLUSTER, Messages(), tp=2, shards=4, crosses=False)

    assert ring.token == pytest.approx(2 * 2 * 4 * 128 / 4 / (300e9 * 0.77))  # 4 of 8 heads, keys and values
    assert ring.start == pytest.approx(5e-6)


def test_hops_show_where_blocks_are_shorter():
    forward, backward = unhidden(PRICE, RING, 1000, 0)

    assert forward == pytest.approx(3 * (1e-5 + 1e-5))
    assert backward == pytest.approx(3 * (1e-5 + 2e-5) + 2e-5)  # and one brings the gradients home


def test_long_blocks_hide_every_hop_but_the_last():
    assert unhidden(PRICE, RING, 1e5, 1e10) == (0.0, pytest.approx(1e-5 + 1e-3))


def test_a_step_takes_the_longer_of_block_and_hop():
    tokens, squares = 4000, 4000 * 2000
    block = 4e-10 * squares / 16
    forward, backward = unhidden(PRICE, RING, tokens, squares)

    assert forward + 3 * 0.25 * block == pytest.approx(3 * max(0.25 * block, 1e-5 + 4e-5))
    assert backward - (1e-5 + 4e-5) + 3 * 0.75 * block == pytest.approx(3 * max(0.75 * block, 1e-5 + 8e-5))


@pytest.mark.parametrize("width", [256, 4096, 65536])
@pytest.mark.parametrize("again", [0.0, 0.5])
def test_planners_see_many_rows_of_one_width_as_the_simulator_plays_them(width, again):
    planned = row_messages(PRICE, RING, np.array([width]), again)
    many = 10_000
    forward, backward = unhidden(PRICE, RING, many * width, many * width**2)

    assert planned.fixed[0] + many * planned.row[0] == pytest.approx((1 + again) * forward + backward, rel=1e-3)


@pytest.mark.parametrize("hop", [1e-10, 1e-9, 1e-8, 1e-6])
@pytest.mark.parametrize("again", [0.0, 1.0])
def test_planners_never_see_a_pack_as_dearer_than_it_is_played(hop, again):
    ring = RING._replace(token=hop)
    start, token, square = pack_messages(PRICE, ring, again)

    assert PRICE.square * (1 + again * PRICE.forward_attention) / ring.shards + square > 0
    for tokens in (100, 10_000, 1_000_000):
        for length in (1, 128, 512, 8192):
            forward, backward = unhidden(PRICE, ring, tokens, tokens * length)
            played = (1 + again) * forward + backward
            assert start + token * tokens + square * tokens * length <= played * (1 + 1e-9)


def test_planners_see_packs_of_short_sequences_on_a_slow_link_as_they_are_played():
    start, token, square = pack_messages(PRICE, RING, 0.0)

    assert start + token * 1e5 + square * 1e5 * 256 == pytest.approx(sum(unhidden(PRICE, RING, 1e5, 1e5 * 256)))


def test_ulysses_is_bound_by_the_heads_of_a_rank_and_ring_is_not():
    assert possible_shards(SEVEN, 8) == (2, 4)
    assert possible_shards(SEVENTY, 2) == (2, 4, 8, 16, 32)
    found = shared_prices({8: PRICE}, SEVEN, cluster_spec("a100_40gb", 8, 8), choice="cheapest")

    assert (8, 8, True) in found.rings
    assert computed(PRICE, 8) == found.prices[8, 8, True]
    assert (8, 3, True) in found.rings  # heads do not divide by 3 either


def test_keys_and_values_that_members_would_have_to_cut_are_refused_as_the_executor_refuses_them():
    assert 12 not in possible_shards(model_spec("qwen_32b"), 1)
    assert all(8 % shards == 0 or shards % 8 == 0 for shards in possible_shards(SEVENTY, 1))


def test_the_cheaper_of_both_is_chosen():
    each = {context: cost_model(SEVEN, CLUSTER, context=context) for context in ("ulysses", "ring", "cheapest")}
    for shards in (2, 4, 8):
        what = shape(4096 * shards, 4096 * shards, shards)
        ulysses, ring, cheapest = (seconds(cost, what) for cost in each.values())

        assert cheapest == pytest.approx(min(ulysses, ring), rel=0.01)


def test_a_ring_between_nodes_waits_for_the_network():
    near, far = (cost_model(SEVEN, cluster_spec("a100_40gb", 8, size), form="floor", context="ring") for size in (8, 2))

    assert seconds(far, shape(8192, 1024, 8)) > seconds(near, shape(8192, 1024, 8))
    assert seconds(far, shape(2**18, 2**18, 8)) == pytest.approx(seconds(near, shape(2**18, 2**18, 8)), rel=0.05)


def test_recomputing_sends_keys_and_values_once_more():
    cost = cost_model(SEVEN, CLUSTER, form="floor", context="ring")
    what = shape(8192, 256, 8)
    forward, _ = cost.ring_seconds(ReplicaConfig(1, 1), what)
    alone = cost_model(SEVEN, CLUSTER, form="floor", context="ring", messages="formula")
    more = seconds(cost, what, recompute=32) - seconds(cost, what)

    assert forward > 0
    assert more > 32 * forward
    assert alone.ring_seconds(ReplicaConfig(1, 1), what)[0] != forward


@pytest.mark.parametrize("form", ["floor", "knots"])
def test_both_views_of_a_ring_grow_with_its_tokens(form):
    cost = cost_model(SEVEN, CLUSTER, form=form, context="ring")
    times = [seconds(cost, shape(tokens, 256, 3)) for tokens in range(768, 49152, 768)]

    assert np.all(np.diff(times) > 0)


def test_the_default_is_what_the_executor_plays_and_the_notes_tell_a_ring():
    assert cost_model(SEVEN, CLUSTER, form="floor").rings == {}
    ring = cost_model(SEVEN, CLUSTER, context="ring").provenance(ReplicaConfig(1, 1), (), 4)
    usual = cost_model(SEVEN, CLUSTER).provenance(ReplicaConfig(1, 1), (), 4)

    assert any("by ring, simulated only" in note for note in ring.notes)
    assert any("by Ulysses: layer time divided, all-to-all inside a node measured" in note for note in usual.notes)


def test_a_ring_of_more_replicas_than_the_cluster_has_is_refused():
    with pytest.raises(BadInput, match="no ring of so many replicas fits the cluster"):
        seconds(cost_model(SEVEN, CLUSTER, context="ring"), shape(4096, 256, 17))
    with pytest.raises(BadInput, match="context: there is no 'rings'"):
        cost_model(SEVEN, CLUSTER, context="rings")
