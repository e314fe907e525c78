"""One tenant's adapter in the format of PEFT: adapter_model.safetensors and adapter_config.json, out and in.

What leaves is checked twice, before it is written and as it lies on disk; what enters is checked before it trains.
Keys are `base_model.model.model.layers.{i}.self_attn.q_proj.lora_A.weight` [rank, inputs] and `.lora_B.weight`
[outputs, rank]. PEFT allows another rank and alpha for each module; such an adapter is filled up with zeros to its
largest rank, and a factor goes into B, which gives the same model. The zeros get no gradient and stay.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.nn.functional import pad

from executor.config import ModelConfig, tensor_name
from executor.state import matrix_name
from lobra.errors import BadInput
from lobra.folders import new_folder
from lobra.json_file import read_object
from lobra.spec import TARGET_MODULES, TENANT_NAME, Tenant

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
DEVICE_NAMES = re.compile(r"(con|nul|aux|prn|com\d|lpt\d)(\..*)?")  # not files on every system
PATTERN_KEY = re.compile(r"[A-Za-z0-9_.]+")

# Fields of an adapter_config.json that change what the adapter computes, with the only value that this executor has.
PLAIN: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "task_type": ("CAUSAL_LM", None),
    "bias": ("none",),
    "fan_in_fan_out": (False,),
    "use_dora": (False,),
    "modules_to_save": (None, []),
    "layers_to_transform": (None, []),
    "layer_replication": (None, []),
    "lora_bias": (False,),
    "alora_invocation_tokens": (None,),
    "target_parameters": (None, []),
    "trainable_token_indices": (None, []),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),  # others change the base model as well
}
USED = ("r", "lora_alpha", "lora_dropout", "use_rslora", "rank_pattern", "alpha_pattern")
HARMLESS = (  # what the tensors themselves tell, or a record of how the adapter was made
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "target_modules",
    "exclude_modules",
    "layers_pattern",
    "auto_mapping",
    "peft_version",
    "megatron_core",
    "qalora_group_size",
    "eva_config",
)

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]  # the whole A and the whole B


@dataclass(frozen=True, slots=True, eq=False)
class ImportedAdapter:
    """An adapter as it stood in a folder; alpha belongs to rank under the rule of rslora."""

    rank: int
    alpha: float
    rslora: bool
    dropout: float
    target_modules: tuple[str, ...]  # in canonical order
    matrices: dict[str, Tensor]  # by `executor.state.matrix_name`, whole, float32 or float64, on the CPU


def adapter_folder(root: Path, tenant: str) -> Path:
    """Where a tenant's adapter goes: one level below root, whatever the name. BadInput where the name is none."""
    if not TENANT_NAME.fullmatch(tenant) or DEVICE_NAMES.fullmatch(tenant):
        raise BadInput(f"tenant {tenant!r}: the name cannot be that of a folder; rename the tenant")
    return root / tenant


def export_adapter(
    folder: Path, tenant: Tenant, config: ModelConfig, matrices: Mapping[str, Tensor], base: str = ""
) -> None:
    """Write a new folder that PEFT loads, whole or not at all.

    matrices: whole ones by `executor.state.matrix_name`, as the kind "value" of a `TenantState` has them. base: name or
    path of the base model, for PEFT. BadInput where a matrix is missing, unknown, of the wrong shape, not finite or
    empty.
    """
    owner = f"tenant '{tenant.name}'"
    modules = tuple(module for module in TARGET_MODULES if module in tenant.target_modules)
    plain = {name: matrix.detach().cpu().contiguous().clone() for name, matrix in matrices.items()}
    keys = {ours: theirs for ours, theirs, *_ in _names(modules, config)}
    _check_names(plain, keys, owner)
    for name, _, layer, module in list(_names(modules, config))[::2]:
        pair = plain[name], plain[name[:-1] + "B"]
        _check_pair((layer, module), pair, tenant.rank, config, owner)
    with new_folder(folder) as hidden:
        tensors = {keys[name]: matrix for name, matrix in plain.items()}
        save_file(tensors, hidden / WEIGHTS, metadata={"format": "pt"})
        body = json.dumps(_config_of(tenant, modules, base), indent=2, sort_keys=True, allow_nan=False)
        (hidden / CONFIG).write_text(body + "\n", encoding="utf-8")
        again = import_adapter(hidden, config)
        odd = [name for name, matrix in again.matrices.items() if not torch.equal(matrix, plain[name])]
        if odd:
            raise BadInput(f"{folder}: {odd[0]} was not written as it is; check the disk")


def import_adapter(folder: Path, config: ModelConfig) -> ImportedAdapter:
    """The adapter in a folder that PEFT or `export_adapter` wrote; BadInput names what this model cannot take."""
    body = _read_config(folder / CONFIG)
    tensors = _read_tensors(folder / WEIGHTS)
    owner = str(folder / WEIGHTS)
    modules = tuple(module for module in TARGET_MODULES if any(f".{module}.lora_A." in key for key in tensors))
    names = list(_names(modules, config))
    _check_names(tensors, {theirs for _, theirs, *_ in names}, owner)
    pairs: dict[tuple[int, str], Pair] = {}
    scales: dict[tuple[int, str], float] = {}
    for _, key, layer, module in names[::2]:
        place, target = (layer, module), tensor_name(layer, module)
        pairs[place] = _trainable(tensors[key], owner), _trainable(tensors[key.replace("lora_A", "lora_B")], owner)
        rank = _pattern(body, "rank_pattern", target, body["r"])
        _check_pair(place, pairs[place], rank, config, owner)
        scales[place] = _scale(_pattern(body, "alpha_pattern", target, body["lora_alpha"]), rank, body)
    rank, alpha = max(a.shape[0] for a, _ in pairs.values()), float(body["lora_alpha"])
    whole = _scale(alpha, rank, body)
    matrices = {
        matrix_name(*place, letter): matrix
        for place, pair in pairs.items()
        for letter, matrix in zip("AB", _fill(*pair, rank, scales[place] / whole), strict=True)
    }
    return ImportedAdapter(rank, alpha, body["use_rslora"], float(body["lora_dropout"]), modules, matrices)


def check_tenant(tenant: Tenant, adapter: ImportedAdapter) -> None:
    """Refuse to train on with an adapter that means something else under this tenant's settings."""
    for field in ("rank", "alpha", "rslora"):
        mine, theirs = getattr(tenant, field), getattr(adapter, field)
        if mine != theirs:
            raise BadInput(
                f"tenant '{tenant.name}': {field} is {mine}, but the imported adapter has {theirs}; set it so"
            )
    if set(tenant.target_modules) != set(adapter.target_modules):
        raise BadInput(
            f"tenant '{tenant.name}': target_modules is {tenant.target_modules}, but the imported adapter has "
            f"{adapter.target_modules}; set it so"
        )


def _names(modules: tuple[str, ...], config: ModelConfig) -> Iterator[tuple[str, str, int, str]]:
    """Our name and PEFT's of every matrix, with its layer and module; A and B in turn."""
    for layer in range(config.layers):
        for module in modules:
            for letter in "AB":
                theirs = f"base_model.model.{tensor_name(layer, module)}.lora_{letter}.weight"
                yield matrix_name(layer, module, letter), theirs, layer, module


def _config_of(tenant: Tenant, modules: tuple[str, ...], base: str) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": tenant.rank,
        "lora_alpha": int(tenant.alpha) if float(tenant.alpha).is_integer() else tenant.alpha,
        "lora_dropout": tenant.dropout,
        "use_rslora": tenant.rslora,
        "target_modules": sorted(modules),
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "modules_to_save": None,
        "layers_to_transform": None,
        "layers_pattern": None,
        "rank_pattern": {},
        "alpha_pattern": {},
        "use_dora": False,
    }


def _check_names(found: Collection[str], wanted: Collection[str], owner: str) -> None:
    """Two matrices for each layer and module, no more, no less."""
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if not found:
        raise BadInput(f"{owner}: the adapter holds no tensor at all")
    if missing:
        raise BadInput(f"{owner}: the adapter lacks {len(missing)} of {len(wanted)} tensors, such as {missing[0]}")
    if extra:
        raise BadInput(f"{owner}: the adapter holds {len(extra)} tensors that the model has no place for: {extra[0]}")


def _check_pair(place: tuple[int, str], pair: Pair, rank: int, config: ModelConfig, owner: str) -> None:
    outputs, inputs = config.module_shape(place[1])
    for side, matrix, shape in zip("AB", pair, ((rank, inputs), (outputs, rank)), strict=True):
        where = f"{owner}: lora_{side} of layer {place[0]} {place[1]}"
        if tuple(matrix.shape) != shape:
            raise BadInput(f"{where} has the shape {tuple(matrix.shape)}, not {shape}")
        if not bool(matrix.isfinite().all()):
            raise BadInput(f"{where} holds values that are not finite; such an adapter is never passed on")
        if side == "A" and not bool(matrix.any()):
            raise BadInput(f"{where} is all zero: it was lost, or never drawn; no gradient could reach its B")


def _read_config(file: Path) -> dict[str, Any]:
    body = read_object(file)
    for field, allowed in PLAIN.items():
        if body.get(field, allowed[0]) not in allowed:
            raise BadInput(f"{file}: {field} is {body[field]!r}; this executor trains with {allowed[0]!r} only")
    for field, value in body.items():
        if value and field not in (*PLAIN, *USED, *HARMLESS):
            raise BadInput(
                f"{file}: {field} is {value!r}; this executor does not know the field, it may change the result"
            )
    defaults: dict[str, Any] = {"use_rslora": False, "lora_dropout": 0.0, "rank_pattern": {}, "alpha_pattern": {}}
    body = defaults | body
    for field, kinds in (("r", (int,)), ("lora_alpha", (int, float))):
        if type(body.get(field)) not in kinds or not 0 < body[field] < float("inf"):
            raise BadInput(f"{file}: {field} is {body.get(field)!r}; it must be a number above 0")
    if type(body["use_rslora"]) is not bool or type(body["lora_dropout"]) not in (int, float):
        raise BadInput(f"{file}: use_rslora must be true or false, lora_dropout a number")
    for field in ("rank_pattern", "alpha_pattern"):
        _check_pattern(body[field], f"{file}: {field}")
    return body


def _check_pattern(pattern: Any, where: str) -> None:
    if not isinstance(pattern, dict):
        raise BadInput(f"{where} is {pattern!r}; it must be an object")
    for name, value in pattern.items():
        if not PATTERN_KEY.fullmatch(name) or type(value) not in (int, float) or not 0 < value < float("inf"):
            raise BadInput(f"{where}: {name!r} is {value!r}; only plain names of modules and numbers above 0 are read")


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{file}: it is no whole safetensors file ({error}); pickled adapters are not read") from None


def _trainable(matrix: Tensor, owner: str) -> Tensor:
    if not matrix.is_floating_point():
        raise BadInput(f"{owner}: a matrix is stored as {matrix.dtype}; only floating point is read")
    return matrix if matrix.dtype == torch.float64 else matrix.float()


def _pattern(body: dict[str, Any], field: str, name: str, default: Any) -> Any:
    """PEFT's rule: the first key that is the module's whole name or its end behind a point."""
    pattern = body[field]
    return next((value for key, value in pattern.items() if f".{name}".endswith(f".{key}")), default)


def _scale(alpha: float, rank: int, body: dict[str, Any]) -> float:
    return float(alpha) / (rank**0.5 if body["use_rslora"] else rank)


def _fill(a: Tensor, b: Tensor, rank: int, factor: float) -> Pair:
    more = rank - a.shape[0]
    if not more and factor == 1:
        return a, b
    return pad(a, (0, 0, 0, more)), pad(b * factor, (0, more))
