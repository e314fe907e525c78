"""Context parallelism and sharded weights: what a layer costs when several equal replicas compute it together.

Ulysses: each of c replicas holds N / c tokens of every sequence for the linear layers and 1 / c of the heads for
attention; an all-to-all of q, k, v goes before attention and one of its output after, forward and backward. A layer
then takes max(floor, fixed + (token N + square S2) / c) plus these messages. Permutes and copies around them, and
kernels that are less efficient at few heads, are not included; the part of the messages that grows with N is dropped
where the floor rules.

Sharded frozen weights (fsdp) are gathered for the forward pass and once more for the backward one; prefetching hides
that behind the layer, so it acts as a floor.
"""

from costmodel.communication import all_gather_seconds, all_to_all_seconds, bytes_per_second, crosses_nodes
from costmodel.layer import LayerPrice
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.spec import ClusterSpec, ModelSpec

PASSES = 2  # the gradients travel the same way back
EXCHANGES = 2  # before attention and after it


def possible_shards(model: ModelSpec, tp: int) -> tuple[int, ...]:
    """Degrees of context parallelism above 1 that leave every GPU whole heads (key and value heads may be copied)."""
    heads = model.heads // tp
    return tuple(shards for shards in range(2, heads + 1) if heads % shards == 0)


def shared_price(
    price: LayerPrice, model: ModelSpec, cluster: ClusterSpec, *, tp: int, shards: int, crosses: bool
) -> LayerPrice:
    """The price of a layer that so many replicas compute together; the group crosses nodes or does not."""
    link = cluster.inter_node if crosses else cluster.intra_node
    elements = model.hidden * (2 + 2 * model.kv_heads / model.heads)  # q, output, k, v of one token
    size = PASSES * 2.0 * elements / (tp * shards)
    start = PASSES * EXCHANGES * all_to_all_seconds(link, 0.0, shards)
    return price._replace(
        floor=price.floor + start,
        fixed=price.fixed + start,
        run=price.run,
        token=price.token / shards + (shards - 1) / shards * size / bytes_per_second(link),
        square=price.square / shards,
    )


def shared_prices(
    prices: dict[int, LayerPrice], model: ModelSpec, cluster: ClusterSpec
) -> dict[tuple[int, int, bool], LayerPrice]:
    """Every shared price, by tp, shards and whether the group crosses nodes; shards 1 is the price itself."""
    table: dict[tuple[int, int, bool], LayerPrice] = {}
    for tp, price in prices.items():
        for crosses in (False, True):
            table[tp, 1, crosses] = price
            for shards in possible_shards(model, tp):
                table[tp, shards, crosses] = shared_price(price, model, cluster, tp=tp, shards=shards, crosses=crosses)
    return table


def refuse_shards(model: ModelSpec, tp: int, shards: int) -> BadInput:
    """Why these shards cannot be."""
    choices = ", ".join(map(str, (1, *possible_shards(model, tp))))
    return BadInput(
        f"context parallelism: shards is {shards}, but {model.heads // tp} heads of '{model.name}' at tp {tp} "
        f"divide into {choices}"
    )


def gather_seconds(model: ModelSpec, cluster: ClusterSpec, config: ReplicaConfig) -> float:
    """Seconds to gather the frozen weights of one layer twice, forward and backward; 0 where they are not sharded."""
    link = cluster.inter_node if crosses_nodes(cluster, config, config.fsdp) else cluster.intra_node
    return PASSES * all_gather_seconds(link, 2.0 * model.layer_parameters / config.tp, config.fsdp)
