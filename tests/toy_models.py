"""Tiny Hugging Face folders, a forward pass written anew for tests, and the executor's own on one rank."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import toys
from executor.adapters import Bank, create
from executor.config import ModelConfig
from executor.data import Piece, Run, Stream
from executor.mesh import Place
from executor.model import Stage, load_layer, load_table, make_input
from executor.state import TenantState, restore
from executor.weights import WeightSource

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def body(kind: str = "llama", **more: Any) -> dict[str, Any]:
    """A config.json of two layers as Hugging Face writes it; None as a value removes nothing, it is null."""
    common = {
        "model_type": kind,
        "architectures": [{"llama": "Llama", "qwen2": "Qwen2", "mistral": "Mistral"}[kind] + "ForCausalLM"],
        "vocab_size": 40,
        "hidden_size": 24,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500.0,
        "hidden_act": "silu",
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "transformers_version": "4.50.0",
        "use_cache": True,
    }
    own = {
        "llama": {"attention_bias": False, "mlp_bias": False, "rope_scaling": None, "head_dim": 6},
        "qwen2": {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 2},
        "mistral": {"sliding_window": None, "head_dim": 8},
    }[kind]
    return common | own | more


def tensors(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random float32 tensors under Hugging Face's names, written out here from the published layout."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim") or hidden // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        shapes |= {
            f"{layer}.self_attn.q_proj.weight": (queries, hidden),
            f"{layer}.self_attn.k_proj.weight": (keys, hidden),
            f"{layer}.self_attn.v_proj.weight": (keys, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, queries),
            f"{layer}.mlp.gate_proj.weight": (inner, hidden),
            f"{layer}.mlp.up_proj.weight": (inner, hidden),
            f"{layer}.mlp.down_proj.weight": (hidden, inner),
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
        }
        if config["model_type"] == "qwen2":
            sizes = {"q": queries, "k": keys, "v": keys}
            shapes |= {f"{layer}.self_attn.{letter}_proj.bias": (width,) for letter, width in sizes.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return {
        name: torch.randn(shape, generator=generator) * 0.3 + (1.0 if "norm" in name else 0.0)
        for name, shape in shapes.items()
    }


def write(folder: Path, config: dict[str, Any], held: dict[str, torch.Tensor], shards: int = 1) -> None:
    """The folder of a model, in one file or in shards with an index."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names, index = sorted(held), {}
    for shard in range(shards):
        part = names[shard::shards]
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        save_file({name: held[name] for name in part}, folder / file, metadata={"format": "pt"})
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def made(folder: Path, kind: str = "llama", shards: int = 1, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A folder of random weights; its config.json and its tensors."""
    config = body(kind, **more)
    held = tensors(config)
    write(folder, config, held, shards)
    return config, held


def expected_logits(config: dict[str, Any], held: dict[str, torch.Tensor], ids: list[int], start: int = 0) -> Any:
    """Logits [tokens, vocabulary] in float64, straight from config.json: complex rotations, explicit softmax."""
    weights = {name: tensor.double() for name, tensor in held.items()}
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    turns = torch.outer(torch.arange(start, start + len(ids)).double(), _frequencies(config, size))
    phase = torch.polar(torch.ones_like(turns), turns)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]).sqrt() * weights[name]

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def turned(x: torch.Tensor) -> torch.Tensor:
        both = torch.complex(x[..., : size // 2], x[..., size // 2 :]) * phase[:, None]
        return torch.cat((both.real, both.imag), -1)

    x = weights["model.embed_tokens.weight"][torch.tensor(ids)]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        y = norm(x, f"{layer}.input_layernorm.weight")
        q = turned(linear(y, f"{layer}.self_attn.q_proj").view(len(ids), heads, size))
        k = turned(linear(y, f"{layer}.self_attn.k_proj").view(len(ids), kv_heads, size))
        v = linear(y, f"{layer}.self_attn.v_proj").view(len(ids), kv_heads, size)
        out = torch.zeros_like(q)
        for head in range(heads):
            key, value = k[:, head * kv_heads // heads], v[:, head * kv_heads // heads]
            scores = q[:, head] @ key.T / math.sqrt(size)
            scores = scores.masked_fill(torch.ones(len(ids), len(ids)).triu(1).bool(), -math.inf)
            shares = (scores - scores.max(-1, keepdim=True).values).exp()
            out[:, head] = shares / shares.sum(-1, keepdim=True) @ value
        x = x + linear(out.flatten(1), f"{layer}.self_attn.o_proj")
        y = norm(x, f"{layer}.post_attention_layernorm.weight")
        gate = linear(y, f"{layer}.mlp.gate_proj")
        x = x + linear(gate / (1 + (-gate).exp()) * linear(y, f"{layer}.mlp.up_proj"), f"{layer}.mlp.down_proj")
    table = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, "model.norm.weight") @ weights[table].T


def _frequencies(config: dict[str, Any], size: int) -> torch.Tensor:
    """By wavelength, as the Llama 3.1 model card describes its scaling."""
    fields = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = fields.get("rope_theta", config.get("rope_theta"))
    plain = [theta ** (-2 * pair / size) for pair in range(size // 2)]
    if fields.get("rope_type", fields.get("type")) == "linear":
        return torch.tensor([each / fields["factor"] for each in plain], dtype=torch.float64)
    if fields.get("rope_type") != "llama3":
        return torch.tensor(plain, dtype=torch.float64)
    context, scaled = fields["original_max_position_embeddings"], []
    low, high = fields["low_freq_factor"], fields["high_freq_factor"]
    for each in plain:
        length = 2 * math.pi / each
        if length > context / low:
            scaled.append(each / fields["factor"])
        elif length < context / high:
            scaled.append(each)
        else:
            share = (context / length - low) / (high - low)
            scaled.append((1 - share) * each / fields["factor"] + share * each)
    return torch.tensor(scaled, dtype=torch.float64)


def executor_logits(
    source: WeightSource,
    config: ModelConfig,
    ids: list[int],
    start: int = 0,
    dtype: torch.dtype = torch.float64,
    adapter: TenantState | None = None,
    cut: tuple[int, ...] = (0,),
) -> torch.Tensor:
    """Logits [tokens, vocabulary] of the executor's model, positions from `start`, stage after stage in one process.

    Every stage reads what it needs from the source; the last one the head, from the embedding's table where tied.
    """
    cpu, count, x = torch.device("cpu"), len(ids), None
    run = Run(0, (Piece(0, 0, 0, count),))
    stream = Stream(torch.tensor(ids), torch.full((count,), -100), torch.arange(start, start + count), (run,))
    table = "model.embed_tokens.weight"
    with torch.no_grad():
        for number, (first, end) in enumerate(pairwise((*cut, config.layers))):
            place = Place(0, number, 0, 1, len(cut), range(first, end))
            fresh = create(adapter.tenant if adapter else toys.tenant(), config, place, dtype, cpu)  # its B is zero
            if adapter:
                restore(fresh, adapter, leader=True)
            layers = tuple(load_layer(source, config, place, i, dtype=dtype, device=cpu) for i in place.layers)
            embedding = load_table(source, table, dtype, cpu) if place.first else None
            stage = Stage(config, place, layers, embedding, None, None, Bank((fresh,)), None, "loop", "loop", 0)
            x = stage.forward(x, make_input(stream, config, place, step=0, dtype=dtype, context=None))
        norm = load_table(source, "model.norm.weight", dtype, cpu)
        head = load_table(source, table if config.tied_embeddings else "lm_head.weight", dtype, cpu)
        return torch.nn.functional.rms_norm(x, (config.hidden,), norm, config.rms_epsilon) @ head.T
