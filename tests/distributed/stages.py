"""A whole model on one rank without any process group, for tests of its arithmetic."""

from collections.abc import Sequence

import torch

from distributed.worlds import CONFIG, TENANTS, random_state
from executor.adapters import Bank, create
from executor.config import ModelConfig
from executor.data import Stream, SyntheticTokens, build
from executor.mesh import Place
from executor.model import Input, Stage, load_layer, load_table, make_input
from executor.settings import AttentionKind, LoraKind
from executor.state import restore
from executor.weights import RandomWeights
from lobra.plan import MicroBatch
from lobra.spec import Tenant

CPU = torch.device("cpu")


def place(config: ModelConfig) -> Place:
    return Place(0, 0, 0, 1, 1, range(config.layers))


def stage(
    config: ModelConfig = CONFIG,
    tenants: Sequence[Tenant] = TENANTS,
    dtype: torch.dtype = torch.float64,
    *,
    tables: bool = True,
    recompute: int = 0,
    attention: AttentionKind = "loop",
    lora: LoraKind = "loop",
) -> Stage:
    """All layers; without tables activations go in and come out."""
    weights, where = RandomWeights(config, 1), place(config)
    layers = tuple(load_layer(weights, config, where, n, dtype=dtype, device=CPU) for n in where.layers)
    adapters = tuple(create(tenant, config, where, dtype, CPU) for tenant in tenants)
    for adapter in adapters:
        restore(adapter, random_state(adapter.tenant, config), leader=True)
    names = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    embedding, norm, head = (load_table(weights, name, dtype, CPU) if tables else None for name in names)
    return Stage(config, where, layers, embedding, norm, head, Bank(adapters), None, attention, lora, recompute)


def stream(microbatch: MicroBatch, config: ModelConfig = CONFIG, tenants: Sequence[Tenant] = TENANTS) -> Stream:
    names = [tenant.name for tenant in tenants]
    return build(microbatch, 1, names, SyntheticTokens(config.vocabulary, 1), config.vocabulary)


def given(
    microbatch: MicroBatch,
    config: ModelConfig = CONFIG,
    tenants: Sequence[Tenant] = TENANTS,
    dtype: torch.dtype = torch.float64,
) -> Input:
    return make_input(stream(microbatch, config, tenants), config, place(config), step=0, dtype=dtype, context=None)
