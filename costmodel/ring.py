"""Ring attention: keys and values travel around the members of a group while each of them attends to what it holds.

The idea: each of c members keeps 1 / c of the tokens. Attention is c blocks a member, one for the keys and values of
each member; while it computes one block it sends those on to the next member and gets others. A step takes
max(block, hop), so a layer has (c - 1) max(0, hop - block) of messages that attention does not hide. Backward a hop
carries keys and values and the gradients of both, and one last hop, behind nothing, brings these home.

Source: Ring Attention with Blockwise Transformers (Liu et al. 2023). Assumed: causal blocks are dealt out evenly (each
member has early and late tokens), a hop costs what a message between two GPUs costs, over the network for the whole
ring where any member lives on another node, and sending slows no kernel down.

Its limits: no public measurement of it is behind these prices, and this project's executor does not play it. Planners
see a padded micro-batch as it is played when it has many rows, and a pack by a line: that of hidden hops, or that of
hidden blocks where sequences of 512 tokens have the shorter ones. Both are never dearer than what is played.
"""

from typing import NamedTuple

import numpy as np

from costmodel.communication import smallest_node
from costmodel.layer import LayerPrice
from costmodel.messages import PAIR, Messages
from lobra.batch import Array
from lobra.spec import ClusterSpec, ModelSpec

BYTES = 2.0  # an element of bfloat16
LARGEST = 64  # members of a ring
PACKED_LENGTH = 512  # tokens of a sequence in a pack, to choose a planner's line by


class Ring(NamedTuple):
    """What one hop of keys and values costs: start + token N, with N the tokens of the whole micro-batch."""

    start: float
    token: float
    shards: int


def largest_ring(cluster: ClusterSpec, tp: int) -> int:
    """Members of the largest ring that is priced."""
    return min(LARGEST, cluster.gpus // tp)


def ring_hop(
    model: ModelSpec, cluster: ClusterSpec, messages: Messages, *, tp: int, shards: int, crosses: bool
) -> Ring:
    """The hop of such a ring, as a line of the micro-batch's tokens."""
    kv_heads = max(1.0, model.kv_heads / tp)  # of a GPU; fewer than tp are copied
    size = BYTES * 2 * kv_heads * model.head_size / shards
    line = messages.line("point_to_point", cluster, PAIR, crosses=crosses or smallest_node(cluster) < PAIR)
    return Ring(line.start, line.byte * size, shards)


def computed(price: LayerPrice, shards: int) -> LayerPrice:
    """What each member computes, without messages."""
    return price._replace(token=price.token / shards, square=price.square / shards)


def unhidden(alone: LayerPrice, ring: Ring, tokens: float, squares: float) -> tuple[float, float]:
    """Seconds of messages, forward and backward, that the blocks of attention do not hide; alone: without a group."""
    block = alone.square * squares / ring.shards**2
    forward, backward = alone.forward_attention * block, (1 - alone.forward_attention) * block
    steps, moved = ring.shards - 1, ring.token * tokens
    return (
        steps * max(0.0, ring.start + moved - forward),
        steps * max(0.0, ring.start + 2 * moved - backward) + ring.start + moved,
    )


class RowMessages(NamedTuple):
    """Unhidden messages of padded micro-batches as planners see them: fixed [J] + row [J] a row, both passes."""

    fixed: Array
    row: Array


def row_messages(alone: LayerPrice, ring: Ring, widths: Array, again: float) -> RowMessages:
    """Of a layer, at every width [J]; again: how many times more the forward pass runs."""
    width = np.asarray(widths, dtype=np.float64)
    block = alone.square * width**2 / ring.shards**2
    fixed, row = np.full_like(width, ring.start), ring.token * width  # the hop home
    for times, parts, share in _passes(alone, again):
        slope = parts * ring.token * width - share * block
        steps = times * (ring.shards - 1)
        fixed = fixed + np.where(slope > 0, steps * ring.start, 0.0)
        row = row + steps * np.maximum(0.0, slope)
    return RowMessages(fixed, row)


class PackMessages(NamedTuple):
    """Unhidden messages of packs as planners see them, both passes; square is not above 0: what hops hide in turn."""

    start: float
    token: float
    square: float


def pack_messages(alone: LayerPrice, ring: Ring, again: float) -> PackMessages:
    """Of a layer, never more than is played: hidden hops, or hidden blocks where those of short sequences are shorter.

    again: how many times more the forward pass runs.
    """
    start, token, square = ring.start, ring.token, 0.0  # the hop home
    block = alone.square / ring.shards**2
    for times, parts, share in _passes(alone, again):
        steps = times * (ring.shards - 1)
        if parts * ring.token > share * block * PACKED_LENGTH:
            start, token, square = (
                start + steps * ring.start,
                token + steps * parts * ring.token,
                square - steps * share * block,
            )
    return PackMessages(start, token, square)


def _passes(alone: LayerPrice, again: float) -> tuple[tuple[float, int, float], ...]:
    """How often a pass runs, what its hops carry in keys and values of a part, and its share of attention."""
    return (1 + again, 1, alone.forward_attention), (1.0, 2, 1 - alone.forward_attention)
