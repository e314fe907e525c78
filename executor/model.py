"""One stage of the base model: embedding, decoder layers, head, over a flat stream of tokens.

T: tokens of the replica's part of a stream. t: tokens of this rank, T / tp. h: hidden. Between the collectives an
activation is [t, h]; inside attention and feed-forward it is [T, width / tp]. Embedding and head are whole on every
rank, which does its own t tokens: exact, without communication, for the memory of one table.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from executor.adapters import Bank
from executor.attention import attend
from executor.config import BIASED_MODULES, ModelConfig, tensor_name
from executor.context_parallel import join_heads, split_heads
from executor.data import Stream
from executor.lora import lora_linear
from executor.loss import token_losses
from executor.mesh import Context, Group, Place, token_slice
from executor.pointwise import gated, rotate
from executor.settings import AttentionKind, LoraKind
from executor.shards import even_slice, weight_block
from executor.tensor_parallel import gather, reduce_scatter
from executor.weights import WeightSource
from lobra.spec import TARGET_MODULES

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """The frozen tensors of one decoder layer on this rank."""

    number: int
    attention_norm: Tensor
    feedforward_norm: Tensor
    weights: dict[str, Tensor]
    biases: dict[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """One micro-batch as this rank sees it."""

    stream: Stream
    chunk: slice  # the replica's tokens of the stream, T of them
    own: slice  # this rank's tokens, t of them
    step: int
    cosine: Tensor  # [T, 1, head_size / 2]
    sine: Tensor
    context: Context | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The layers of one stage, with the embedding on the first and the head on the last."""

    config: ModelConfig
    place: Place
    layers: tuple[LayerWeights, ...]
    embedding: Tensor | None
    norm: Tensor | None
    head: Tensor | None
    bank: Bank
    tensor: Group | None
    attention: AttentionKind
    lora: LoraKind
    recompute: int  # layers whose activations are made again for the backward pass: the first of the stage

    def forward(self, x: Tensor | None, given: Input) -> Tensor:
        """Activations [t, h] for the next stage, or on the last one the token losses [t]; x is None on the first."""
        if self.embedding is not None:
            x = functional.embedding(given.stream.ids[given.own], self.embedding)
            # members of a context see different tokens, maybe no adapter; a gradient makes their graphs, and so their
            # collectives, the same
            x.requires_grad_(given.context is not None)
        assert x is not None
        for position, layer in enumerate(self.layers):
            if position < self.recompute:
                x = checkpoint(self._layer, x, layer, given, use_reentrant=False, preserve_rng_state=False)
            else:
                x = self._layer(x, layer, given)
        if self.head is None or self.norm is None:
            return x
        return token_losses(self._normal(x, self.norm), self.head, given.stream.labels[given.own])

    def weights(self) -> Iterator[Tensor]:
        """Every frozen tensor."""
        yield from (table for table in (self.embedding, self.norm, self.head) if table is not None)
        for layer in self.layers:
            yield from (layer.attention_norm, layer.feedforward_norm, *layer.weights.values(), *layer.biases.values())

    def _normal(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, (self.config.hidden,), weight, self.config.rms_epsilon)

    def _layer(self, x: Tensor, layer: LayerWeights, given: Input) -> Tensor:
        x = x + self._attention(self._normal(x, layer.attention_norm), layer, given)
        return x + self._feedforward(self._normal(x, layer.feedforward_norm), layer, given)

    def _linear(self, x: Tensor, module: str, layer: LayerWeights, given: Input) -> Tensor:
        slots = self.bank.slots(layer.number, module, given.stream.runs, given.chunk, given.step)
        return lora_linear(x, layer.weights[module], layer.biases.get(module), slots, self.lora)

    def _attention(self, x: Tensor, layer: LayerWeights, given: Input) -> Tensor:
        full = gather(x, self.tensor)  # [T, h]
        size = self.config.head_size
        q, k, v = (
            self._linear(full, module, layer, given).view(len(full), -1, size)
            for module in ("q_proj", "k_proj", "v_proj")
        )
        q, k = rotate(q, given.cosine, given.sine), rotate(k, given.cosine, given.sine)
        if given.context is not None:
            q, k, v = split_heads(q, k, v, given.context)
        out = attend(q, k, v, given.stream.segments, self.attention)
        if given.context is not None:
            out = join_heads(out, given.context)
        return reduce_scatter(self._linear(out.flatten(1), "o_proj", layer, given), self.tensor)

    def _feedforward(self, x: Tensor, layer: LayerWeights, given: Input) -> Tensor:
        full = gather(x, self.tensor)
        gate, up = (self._linear(full, module, layer, given) for module in ("gate_proj", "up_proj"))
        inner = gated(gate, up)
        return reduce_scatter(self._linear(inner, "down_proj", layer, given), self.tensor)


def make_input(
    stream: Stream, config: ModelConfig, place: Place, *, step: int, dtype: torch.dtype, context: Context | None
) -> Input:
    """What this rank needs of a stream; angles are float64 in a float64 run, else float32 as in Hugging Face."""
    shards, member = (context.size, context.member) if context else (1, 0)
    chunk = even_slice(stream.tokens, member, shards)
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    frequencies = torch.tensor(config.rope.frequencies(config.head_size), dtype=precise, device=stream.ids.device)
    angles = stream.positions[chunk, None].to(precise) * frequencies
    own = token_slice(stream.tokens, place, shards, member)
    return Input(stream, chunk, own, step, angles.cos()[:, None].to(dtype), angles.sin()[:, None].to(dtype), context)


def load_layer(
    source: WeightSource, config: ModelConfig, place: Place, number: int, *, dtype: torch.dtype, device: torch.device
) -> LayerWeights:
    """This rank's rectangles of one layer."""
    weights, biases = {}, {}
    for module in TARGET_MODULES:
        name, block = tensor_name(number, module), weight_block(config, module, place.shard, place.tp)
        weights[module] = source.read(f"{name}.weight", block.rows, block.columns).to(device, dtype)
        if config.qkv_bias and module in BIASED_MODULES:
            biases[module] = source.read(f"{name}.bias", block.rows).to(device, dtype)
    first, second = (
        source.read(f"model.layers.{number}.{norm}.weight").to(device, dtype)
        for norm in ("input_layernorm", "post_attention_layernorm")
    )
    return LayerWeights(number, first, second, weights, biases)


def load_table(source: WeightSource, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A whole tensor: embedding, head or last norm."""
    return source.read(name).to(device, dtype)
