"""The frozen weights of a Hugging Face folder, every rank reading only the rectangles it needs.

Before anything is read, index, files and architecture are compared in every direction: a shard or tensor that is
missing, unknown, elsewhere than the index says, or of another shape is named. Safetensors only; no pickle is opened.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from executor.config import ModelConfig, tensor_shapes
from executor.huggingface_config import read_config
from lobra.errors import BadInput
from lobra.json_file import read_object

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.safetensors")
FLOATS = ("F64", "F32", "F16", "BF16")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
DERIVED = re.compile(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")  # old files keep what config.json says
OTHER_FORMAT = re.compile(r"consolidated.*\.safetensors")  # Mistral's own copy of the same weights
PIECE = 4096  # rows compared at a time

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class HuggingFaceWeights:
    """Tensors by name; an `executor.weights.WeightSource`. Files are opened for each read and mapped, not loaded."""

    config: ModelConfig
    files: Mapping[str, Path]  # tensor: the file that holds it

    def read(self, name: str, rows: slice | None = None, columns: slice | None = None) -> Tensor:
        """That rectangle of the tensor in the type of the file, on the CPU; only its bytes are read."""
        if name not in self.files:
            raise BadInput(f"the model has no tensor '{name}'")
        with safe_open(self.files[name], "pt") as file:
            whole = file.get_slice(name)
            part: Tensor = whole[rows or slice(None)] if columns is None else whole[rows or slice(None), columns]
            return part.clone(memory_format=torch.contiguous_format)  # a view would keep the whole file mapped


def open_huggingface(folder: Path) -> HuggingFaceWeights:
    """The model in this folder, checked as a whole; only headers are read. BadInput lists what is wrong."""
    config = read_config(folder)
    owners = _owners(folder)
    headers: dict[str, tuple[Path, list[int], str]] = {}
    for file in sorted(set(owners.values())):
        for name, (shape, dtype) in _header(file).items():
            if owners.get(name, file) == file:
                headers[name] = file, shape, dtype
            else:
                raise BadInput(f"{file}: it holds '{name}', which belongs to {owners[name].name} by the index")
    if (folder / INDEX).is_file():
        _compare(headers, owners, f"{folder / INDEX}: it names tensors that no file holds", "not in the index")
    _check_tensors(folder, config, headers)
    files = {name: headers[name][0] for name in tensor_shapes(config)}
    weights = HuggingFaceWeights(config, files)
    if config.tied_embeddings and HEAD in headers:
        _check_tied(weights, *headers[HEAD][:2])
    return weights


def _owners(folder: Path) -> dict[str, Path]:
    """Tensor to file by the index; a single file stands under its own name, for all of its tensors."""
    present = {file.name for file in folder.glob("*.safetensors") if not OTHER_FORMAT.fullmatch(file.name)}
    index = folder / INDEX
    if not index.is_file():
        if SINGLE not in present:
            raise BadInput(f"{folder}: it has neither {SINGLE} nor {INDEX}; only safetensors are read, never pickle")
        _refuse_stray(folder, present - {SINGLE}, SINGLE)
        return dict.fromkeys(_header(folder / SINGLE), folder / SINGLE)
    named = _weight_map(index)
    missing = sorted(set(named.values()) - present)
    if missing:
        raise BadInput(f"{folder}: files that the index names are missing: {_some(missing)}; fetch the model again")
    _refuse_stray(folder, present - set(named.values()), INDEX)
    return {tensor: folder / file for tensor, file in named.items()}


def _refuse_stray(folder: Path, stray: Iterable[str], owner: str) -> None:
    extra = sorted(stray)
    if extra:
        raise BadInput(f"{folder}: {_some(extra)} does not belong to {owner}; move it out of the folder")


def _weight_map(index: Path) -> dict[str, str]:
    named = read_object(index).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise BadInput(f"{index}: it has no weight_map of tensors to files")
    for tensor, file in named.items():
        if not isinstance(file, str) or not SHARD_NAME.fullmatch(file):
            raise BadInput(f"{index}: '{tensor}' is said to lie in {file!r}; a file of this folder must be named")
    return named


def _header(file: Path) -> dict[str, tuple[list[int], str]]:
    """Shape and type of every tensor in a file."""
    try:
        with safe_open(file, "pt") as content:
            slices: dict[str, Any] = {name: content.get_slice(name) for name in content.keys()}  # noqa: SIM118
            return {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{file}: it is no whole safetensors file ({error}); fetch it again") from None


def _compare(found: Iterable[str], wanted: Iterable[str], missing: str, extra: str) -> None:
    """Refuse names that stand on one side only; the words say what that means."""
    lacking, surplus = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if lacking:
        raise BadInput(f"{missing}: {_some(lacking)}")
    if surplus:
        raise BadInput(f"the files hold tensors that are {extra}: {_some(surplus)}")


def _check_tensors(folder: Path, config: ModelConfig, headers: Mapping[str, tuple[Path, list[int], str]]) -> None:
    shapes = tensor_shapes(config)
    if not config.tied_embeddings and HEAD not in headers:
        raise BadInput(
            f"{folder}: config.json says that the embedding is not tied, but the files hold no {HEAD}; "
            "if the model shares it, write tie_word_embeddings: true"
        )
    relevant = {name for name in headers if not DERIVED.fullmatch(name)}
    if config.tied_embeddings:
        relevant.discard(HEAD)
    missing = f"{folder}: the files lack tensors of the model in config.json"
    _compare(relevant, shapes, missing, f"unknown to the model in {folder / 'config.json'}")
    for name, shape in shapes.items():
        file, found, dtype = headers[name]
        if tuple(found) != shape:
            raise BadInput(f"{file}: '{name}' has the shape {tuple(found)}, but config.json makes it {shape}")
        if dtype not in FLOATS:
            raise BadInput(f"{file}: '{name}' is stored as {dtype}; only {', '.join(FLOATS)} are read")


def _check_tied(weights: HuggingFaceWeights, file: Path, shape: list[int]) -> None:
    """A tied model may hold its head a second time, if it is the same."""
    head, size = HuggingFaceWeights(weights.config, {HEAD: file}), weights.config.vocabulary
    pieces = (slice(start, min(start + PIECE, size)) for start in range(0, size, PIECE))
    same = tuple(shape) == (size, weights.config.hidden)
    for rows in pieces:
        if not same or not torch.equal(head.read(HEAD, rows), weights.read(EMBEDDING, rows)):
            raise BadInput(
                f"{file}: config.json ties the head to the embedding, but {HEAD} differs from {EMBEDDING}; "
                "write tie_word_embeddings: false, or remove the tensor"
            )


def _some(names: list[str]) -> str:
    """The first few of them."""
    rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + rest
