"""Context parallelism and sharded weights: what a layer costs when several equal replicas compute it together.

Each of c replicas holds N / c tokens of every sequence for the linear layers. Ulysses: it has 1 / c of the heads for
attention; an all-to-all of q, k, v goes before attention and one of its output after, forward and backward. A layer
then takes max(floor, fixed + (token N + square S2) / c) plus these messages, as a line of their bytes. The heads of a
rank bound c. Ring (`costmodel.ring`): keys and values travel instead, behind attention; any c will do. The cheaper one
of a tensor-parallel size and group size is the one that takes a sequence of 4,096 tokens a member sooner.

Permutes and copies around the messages, and kernels that are less efficient at few heads or short blocks, are not
included; the part of Ulysses' messages that grows with N is dropped where the floor rules.

Sharded frozen weights (fsdp) are gathered for the forward pass and once more for the backward one; prefetching hides
that behind the layer, so it acts as a floor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from costmodel.communication import crosses_nodes
from costmodel.layer import LayerPrice
from costmodel.messages import Messages
from costmodel.ring import BYTES, Ring, computed, largest_ring, ring_hop, unhidden
from costmodel.sources import nearest
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.spec import ClusterSpec, ModelSpec

Choice = Literal["ulysses", "ring", "cheapest"]
CHOICES = ("ulysses", "ring", "cheapest")  # the executor plays the first alone
PASSES = 2  # the gradients travel the same way back
EXCHANGES = 2  # before attention and after it
MEMBER_TOKENS = 4096  # a member, of the sequence that decides between Ulysses and ring

Key = tuple[int, int, bool]  # tp, replicas that share a micro-batch, whether they cross nodes


@dataclass(frozen=True, slots=True)
class Shared:
    """Prices of a layer by key; of those in rings, messages that attention may hide come on top."""

    prices: Mapping[Key, LayerPrice]
    rings: Mapping[Key, Ring] = field(default_factory=dict)


def possible_shards(model: ModelSpec, tp: int) -> tuple[int, ...]:
    """Degrees of Ulysses above 1 that leave every GPU whole heads.

    Key and value heads fewer than members are copied; then the members divide by the heads.
    """
    heads, kv_heads = model.heads // tp, max(1, model.kv_heads // tp)
    return tuple(
        shards
        for shards in range(2, heads + 1)
        if heads % shards == 0 and (kv_heads % shards == 0 or shards % kv_heads == 0)
    )


def shared_price(
    price: LayerPrice,
    model: ModelSpec,
    cluster: ClusterSpec,
    *,
    tp: int,
    shards: int,
    crosses: bool,
    messages: Messages | None = None,
) -> LayerPrice:
    """The price of a layer that so many replicas compute together by Ulysses; the group crosses nodes or does not."""
    kv_heads = max(model.kv_heads, tp * shards)  # copied where there are fewer than members
    elements = model.hidden * (2 + 2 * kv_heads / model.heads)  # q, output, k, v of one token
    size = PASSES * BYTES * elements / (tp * shards)
    line = (messages or Messages()).line("all_to_all", cluster, shards, crosses=crosses)
    start = PASSES * EXCHANGES * line.start
    return price._replace(
        floor=price.floor + start,
        fixed=price.fixed + start,
        run=price.run,
        token=price.token / shards + size * line.byte,
        square=price.square / shards,
    )


def shared_prices(
    prices: Mapping[int, LayerPrice],
    model: ModelSpec,
    cluster: ClusterSpec,
    messages: Messages | None = None,
    choice: Choice = "ulysses",
) -> Shared:
    """Every shared price, by tp, shards and whether the group crosses nodes; shards 1 is the price itself.

    BadInput for a choice that there is not.
    """
    if choice not in CHOICES:
        raise BadInput(nearest("context", choice, CHOICES))
    told = messages or Messages()
    table: dict[Key, LayerPrice] = {}
    rings: dict[Key, Ring] = {}
    for tp, price in prices.items():
        for crosses in (False, True):
            table[tp, 1, crosses] = price
            for shards in () if choice == "ring" else possible_shards(model, tp):
                table[tp, shards, crosses] = shared_price(
                    price, model, cluster, tp=tp, shards=shards, crosses=crosses, messages=told
                )
            for shards in () if choice == "ulysses" else range(2, largest_ring(cluster, tp) + 1):
                ring = ring_hop(model, cluster, told, tp=tp, shards=shards, crosses=crosses)
                key = tp, shards, crosses
                if key not in table or _ring_is_cheaper(price, ring, table[key]):
                    table[key], rings[key] = computed(price, shards), ring
    return Shared(table, rings)


def _ring_is_cheaper(alone: LayerPrice, ring: Ring, ulysses: LayerPrice) -> bool:
    tokens = MEMBER_TOKENS * ring.shards
    squares = tokens * tokens
    shared = computed(alone, ring.shards)
    line = shared.fixed + shared.run + shared.token * tokens + shared.square * squares
    messages = sum(unhidden(alone, ring, tokens, squares))
    other = ulysses.fixed + ulysses.run + ulysses.token * tokens + ulysses.square * squares
    return max(shared.floor, line) + messages < max(ulysses.floor, other)


def refuse_shards(model: ModelSpec, tp: int, shards: int, choice: Choice = "ulysses") -> BadInput:
    """Why these shards cannot be."""
    if choice == "ring":
        return BadInput(f"context parallelism: shards is {shards}, but no ring of so many replicas fits the cluster")
    choices = ", ".join(map(str, (1, *possible_shards(model, tp))))
    return BadInput(
        f"context parallelism: shards is {shards}, but {model.heads // tp} heads of '{model.name}' at tp {tp} "
        f"divide into {choices}"
    )


def gather_seconds(
    model: ModelSpec, cluster: ClusterSpec, config: ReplicaConfig, messages: Messages | None = None
) -> float:
    """Seconds to gather the frozen weights of one layer twice, forward and backward; 0 where they are not sharded."""
    crosses = crosses_nodes(cluster, config, config.fsdp)
    size = BYTES * model.layer_parameters / config.tp
    return PASSES * (messages or Messages()).seconds("all_gather", cluster, size, config.fsdp, crosses=crosses)
