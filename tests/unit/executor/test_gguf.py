"""GGUF files become Hugging Face folders, or are refused."""

import json
import struct

import numpy as np
import pytest
import torch

import toy_models
from executor.gguf import Gguf, convert, main, read_gguf
from executor.huggingface import open_huggingface
from lobra.errors import BadInput

IDS = [3, 1, 4, 1, 5, 9, 2, 6]
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def written(value):
    """A field's type and bytes."""
    match value:
        case str():
            return struct.pack("<I", 8) + text(value)
        case float():
            return struct.pack("<If", 6, value)
        case int():
            return struct.pack("<II", 4, value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        case _:
            return struct.pack("<IIQ", 9, 5, len(value)) + np.array(value, "<i4").tobytes()


def gguf(fields, tensors):
    """The bytes of a file; tensors: name to (shape, kind, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(text(name) + written(value) for name, value in fields.items())
    at, body = 0, b""
    for name, (shape, kind, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + np.array(shape[::-1], "<u8").tobytes()
        head += struct.pack("<IQ", kind, at)
        body += raw + bytes(-len(raw) % 32)
        at = len(body)
    return head + bytes(-len(head) % 32) + body


def paired(weight, heads):
    """Row 2i of a head is the first half's row i, row 2i + 1 the second's, as llama.cpp keeps them."""
    each = weight.shape[0] // heads
    order = [head * each + place for head in range(heads) for i in range(each // 2) for place in (i, i + each // 2)]
    return weight[order]


def toy(kind, **more):
    """A toy model's config, its tensors, and its fields and tensors as llama.cpp would write them."""
    config = toy_models.body(kind, **more)
    held = toy_models.tensors(config)
    fields = {
        "general.architecture": kind,
        f"{kind}.block_count": config["num_hidden_layers"],
        f"{kind}.context_length": config["max_position_embeddings"],
        f"{kind}.embedding_length": config["hidden_size"],
        f"{kind}.feed_forward_length": config["intermediate_size"],
        f"{kind}.attention.head_count": config["num_attention_heads"],
        f"{kind}.attention.head_count_kv": config["num_key_value_heads"],
        f"{kind}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        f"{kind}.rope.freq_base": config["rope_theta"],
        "tokenizer.ggml.eos_token_id": 2,
    }
    tensors = {}
    for name, tensor in held.items():
        stem, _, ending = name.rpartition(".")
        if stem in OUTSIDE:
            theirs = f"{OUTSIDE[stem]}.{ending}"
        else:
            _, _, layer, module = stem.split(".", 3)
            theirs = f"blk.{layer}.{NAMES[module]}.{ending}"
            heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}.get(module[-6:-5])
            if kind == "llama" and heads and module.startswith("self_attn"):
                tensor = paired(tensor, heads)  # noqa: PLW2901
        tensors[theirs] = tuple(tensor.shape), 0, tensor.numpy().astype("<f4").tobytes()
    return config, held, fields, tensors


@pytest.mark.parametrize(("kind", "tied"), [("llama", True), ("llama", False), ("qwen2", True)])
def test_a_converted_model_computes_what_the_original_does(tmp_path, kind, tied):
    config, held, fields, tensors = toy(kind, tie_word_embeddings=tied)
    (tmp_path / "m.gguf").write_bytes(gguf(fields, tensors))

    assert main([str(tmp_path / "m.gguf"), str(tmp_path / "m")]) == 0

    weights = open_huggingface(tmp_path / "m")
    assert (weights.config.context, weights.config.tied_embeddings) == (64, tied)
    assert weights.config.rms_epsilon == config["rms_norm_eps"]
    found = toy_models.executor_logits(weights, weights.config, IDS)
    torch.testing.assert_close(found, toy_models.expected_logits(config, held, IDS), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 8])
def test_blocks_are_unpacked_number_by_number(kind):
    generator = np.random.default_rng(kind)
    sizes = {0: 4, 1: 2, 2: 18, 3: 20, 8: 34}
    blocks = 3 if kind > 1 else 96
    raw = bytearray(generator.integers(0, 256, blocks * sizes[kind], dtype=np.uint8).tobytes())
    for block in range(blocks):  # scales that are numbers
        start = block * sizes[kind]
        if kind == 0:
            raw[start : start + 4] = struct.pack("<f", generator.normal())
        else:
            raw[start : start + 2] = np.array(generator.normal(), "<f2").tobytes()
        if kind == 3:
            raw[start + 2 : start + 4] = np.array(generator.normal(), "<f2").tobytes()
    expected = []
    for block in range(blocks):
        mine = bytes(raw[block * sizes[kind] : (block + 1) * sizes[kind]])
        if kind == 0:
            expected += struct.unpack("<f", mine)
            continue
        (scale,) = struct.unpack("<e", mine[:2])
        if kind == 1:
            expected.append(scale)
        elif kind == 8:
            expected += [scale * number for number in struct.unpack("<32b", mine[2:])]
        else:
            nibbles = [byte & 15 for byte in mine[-16:]] + [byte >> 4 for byte in mine[-16:]]
            least = struct.unpack("<e", mine[2:4])[0] if kind == 3 else -8 * scale
            expected += [scale * number + least for number in nibbles]
    file = Gguf({}, {"x": ((8, 12), kind, 0)}, np.frombuffer(bytes(raw), np.uint8))

    assert file.tensor("x").ravel().tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_a_byte_level_tokenizer_comes_along(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    _, _, fields, tensors = toy("llama")
    words = ["<|end|>", "a", "b", "ab", "\u0120", "1", "2", "12"]
    fields |= {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1, 1, 1],
        "tokenizer.ggml.merges": ["a b", "1 2"],
    }
    (tmp_path / "m.gguf").write_bytes(gguf(fields, tensors))

    assert convert(tmp_path / "m.gguf", tmp_path / "m")
    tool = tokenizers.Tokenizer.from_file(str(tmp_path / "m" / "tokenizer.json"))
    assert tool.encode("ab 12<|end|>").ids == [3, 4, 5, 6, 0]  # digits stand alone
    assert tool.decode([3, 4, 5, 6]) == "ab 12"
    assert json.loads((tmp_path / "m" / "config.json").read_text())["eos_token_id"] == 2


def test_a_tokenizer_of_another_kind_is_left_out_and_said_so(tmp_path, capsys):
    _, _, fields, tensors = toy("llama")
    (tmp_path / "m.gguf").write_bytes(gguf(fields | {"tokenizer.ggml.model": "llama"}, tensors))

    assert main([str(tmp_path / "m.gguf"), str(tmp_path / "m")]) == 0
    assert "its tokenizer is of a kind that is not known here" in capsys.readouterr().out
    assert not (tmp_path / "m" / "tokenizer.json").exists()


@pytest.mark.parametrize(
    ("field", "tensor", "named"),
    [
        (("general.architecture", "gemma"), None, "architecture is 'gemma'"),
        (("llama.block_count", None), None, "field llama.block_count is missing"),
        (("llama.rope.scaling.type", "yarn"), None, "rotary positions are scaled"),
        (None, ("token_embd.weight", None), "'token_embd.weight' is missing"),
        (None, ("blk.1.ffn_up.weight", None), "lack tensors.*up_proj"),
        (None, ("blk.0.moe.weight", ((1,), 0, bytes(4))), "belongs to no layer"),
        (None, ("v.weight", ((1,), 0, bytes(4))), "belongs to no model"),
        (None, ("output_norm.weight", ((24,), 30, bytes(4))), "is of kind 30"),
    ],
)
def test_what_cannot_be_carried_over_is_named_and_nothing_is_written(tmp_path, field, tensor, named):
    _, _, *parts = toy("llama")
    for part, change in zip(parts, (field, tensor), strict=True):
        part.update([change] if change else [])
    fields, tensors = ({name: value for name, value in part.items() if value is not None} for part in parts)
    (tmp_path / "m.gguf").write_bytes(gguf(fields, tensors))

    with pytest.raises(BadInput, match=named):
        convert(tmp_path / "m.gguf", tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_file_cut_anywhere_is_refused(tmp_path):
    _, _, fields, tensors = toy("llama")
    whole = gguf(fields, tensors)
    for size in [0, 3, 4, 20, 30, 100, 777, len(whole) // 2, len(whole) - 33]:
        (tmp_path / "m.gguf").write_bytes(whole[:size])
        with pytest.raises(BadInput):
            convert(tmp_path / "m.gguf", tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_other_files_are_refused_by_name(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"PK" * 100)

    assert main([str(tmp_path / "x"), str(tmp_path / "m")]) == 2
    assert "x: it is no GGUF file of version 2 or 3" in capsys.readouterr().err
    with pytest.raises(BadInput, match="none: cannot be read"):
        read_gguf(tmp_path / "none")
    assert main([]) == 2
