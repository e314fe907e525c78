"""From tables of kernels to the efficiencies of a family of GPUs: `python -m costmodel.fit_efficiency TABLES`.

TABLES holds `derived/<hardware>_layer_lora_composite.csv` (a layer of a known model composed of measured kernels, by
tp, rows and length) and `lorafusion/layer_times.csv` (whole LoRA layers, and what lies before and behind them, measured
on H100). Kernels come first: all models and tp of a family together, relative least squares, every number >= 0. What
whole layers take beyond that is adapters and a fixed part; what embedding, head and loss take beyond the head's matrix
is passes over the logits. These two steps know H100 alone; their numbers are taken over to the other family as they
are. Errors told are of models left out whole.
"""

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from costmodel.efficiency import FILE, Efficiency, adapter_bytes, head_seconds, layer_curve, seconds_of
from costmodel.hardware import cluster_spec
from costmodel.knots import useful_knots
from costmodel.profile import Profile
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.spec import GpuSpec, ModelSpec

KNOTS = (64, 128, 256, 512, 1024, 2048, 4096)  # tokens
LEAST = 16  # tokens of a micro-batch that counts
FAMILIES = {  # of a table: the cluster whose figures it is scaled by, and the GPUs that it stands for
    "a100": ("a100_40gb", ("A100-40GB", "A100-80GB", "A800-80GB")),
    "h100": ("h100_80gb", ("H100-80GB", "H200")),
}
DOCUMENT = 512  # tokens of LoRAFusion's sequences
SHAPES = {  # layers of published configurations: hidden, intermediate, heads, key and value heads, vocabulary
    "Llama-2-7b": (4096, 11008, 32, 32, 32000),
    "Llama-2-70b": (8192, 28672, 64, 8, 32000),
    "Llama-3-8B": (4096, 14336, 32, 8, 128256),
    "Llama-3-70B": (8192, 28672, 64, 8, 128256),
    "Qwen-72B": (8192, 24576, 64, 64, 152064),
    "llama-3.1-8b-instruct": (4096, 14336, 32, 8, 128256),
    "llama-3.1-70b-instruct": (8192, 28672, 64, 8, 128256),
    "qwq-32b": (5120, 27648, 40, 8, 152064),
}
SOURCE = (
    "kernels: layers composed by this project of Vidur's matrices and element-wise kernels (commit 7d47513, MIT) and "
    "of aiconfigurator-core 0.12.0's (Apache-2.0) attention; adapters, fixed part and loss: layer times that "
    "LoRAFusion ships, H100, rank 16 on every matrix, one GPU"
)
FIRST = ("fixed", "weights", "whole", "cut", "attention", "sequence", "row")
NOTHING = Efficiency((0.0,), (0.0,), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Points(NamedTuple):
    """Layers of one model at one tp; columns of [n]."""

    model: str
    tp: int
    profile: Profile


def shape_of(name: str) -> ModelSpec:
    """The sizes of a model of the tables; BadInput for one that is not known."""
    if name not in SHAPES:
        raise BadInput(f"efficiency: the shape of model '{name}' is not known; add it to SHAPES")
    hidden, intermediate, heads, kv_heads, vocabulary = SHAPES[name]
    return ModelSpec(name, 1, hidden, intermediate, heads, kv_heads, vocabulary)


def read_composites(path: Path) -> list[Points]:
    """Every model and tp of a table of composites, messages taken off."""
    with path.open(newline="", encoding="utf-8") as file:
        table = [row for row in csv.DictReader(file) if float(row["tokens"]) >= LEAST]
    found = []
    for name, tp in dict.fromkeys((row["model"], int(row["tp"])) for row in table):
        rows = [row for row in table if (row["model"], int(row["tp"])) == (name, tp)]
        b, s, whole, sums = (
            np.array([float(row[key]) for row in rows]) for key in ("b", "s", "step_ms", "allreduce_ms")
        )
        seconds = (whole - 2 * sums) * 1e-3  # two sums forward, two backward
        found.append(Points(name, tp, Profile(tp, s, b * s, b * s**2, seconds, rows=b)))
    return found


def fit_kernels(points: Sequence[Points], gpu: GpuSpec) -> Efficiency:
    """The numbers of a family without adapters, fixed part and loss."""
    knots = tuple(useful_knots(np.concatenate([each.profile.tokens for each in points]), KNOTS))
    design = np.concatenate([_design(each, gpu, knots) / each.profile.seconds[:, None] for each in points])
    scale = np.maximum(design.max(axis=0), np.finfo(np.float64).tiny)
    solution = nnls(design / scale, np.ones(len(design)))[0] / scale
    first: dict[str, Any] = dict(zip(FIRST, map(float, solution), strict=False))
    return NOTHING._replace(knots=knots, inverse=tuple(map(float, solution[len(FIRST) :])), **first)


def _design(points: Points, gpu: GpuSpec, knots: tuple[float, ...]) -> Array:
    """Seconds of every part at the number 1; columns as FIRST, then one a piece between knots."""
    model, profile = shape_of(points.model), points.profile
    columns = [layer_curve(_only(name), model, gpu, points.tp).of(profile) for name in FIRST]
    token = float(seconds_of(NOTHING._replace(inverse=(1.0,)), model, gpu, points.tp).matrices[0])
    ends = [*knots[1:], np.inf]
    columns += [token * (np.clip(profile.tokens, low, high) - low) for low, high in zip(knots, ends, strict=True)]
    return np.stack(columns, axis=1)


def _only(name: str) -> Efficiency:
    one: dict[str, Any] = {name: 1.0}
    return NOTHING._replace(**one)


def left_out(points: Sequence[Points], gpu: GpuSpec) -> Array:
    """Relative errors of every model by the numbers of all the others."""
    errors: list[Array] = []
    for name in dict.fromkeys(each.model for each in points):
        known = fit_kernels([each for each in points if each.model != name], gpu)
        curves = ((layer_curve(known, shape_of(name), gpu, each.tp), each) for each in points if each.model == name)
        errors += [curve.errors(each.profile) for curve, each in curves]
    return np.concatenate(errors)


class Measured(NamedTuple):
    """LoRAFusion's layers; columns of [n]."""

    models: tuple[str, ...]
    tokens: Array
    seconds: Array  # forward plus backward
    ends: Array  # embedding, head and loss


def read_layers(path: Path) -> Measured:
    """Its main measurement."""
    with path.open(newline="", encoding="utf-8") as file:
        table = [row for row in csv.DictReader(file) if row["variant"] == "main"]
    tokens, seconds, ends = (
        np.array([float(row[key]) for row in table]) for key in ("tokens", "layer_fwd_bwd_s", "pre_post_fwd_bwd_s")
    )
    return Measured(tuple(row["model"] for row in table), tokens, seconds, ends)


def fit_adapters(kernels: Efficiency, layers: Measured, gpu: GpuSpec) -> tuple[Efficiency, Array]:
    """With adapters, fixed part and loss; and the layers' relative errors, each model by the other two's numbers."""
    names = np.array(layers.models)
    errors = np.empty_like(layers.seconds)
    for name in np.unique(names):
        held = names == name
        errors[held] = (layer_seconds(_with_adapters(kernels, layers, ~held, gpu), layers, gpu) / layers.seconds - 1)[
            held
        ]
    return _with_adapters(kernels, layers, np.ones(len(names), dtype=np.bool_), gpu), errors


def layer_seconds(known: Efficiency, layers: Measured, gpu: GpuSpec) -> Array:
    """What the form says of LoRAFusion's layers."""
    curves = {name: layer_curve(known, shape_of(name), gpu, 1) for name in dict.fromkeys(layers.models)}
    pairs = zip(layers.models, layers.tokens.tolist(), strict=True)
    return np.array([curves[name].seconds(1, tokens / DOCUMENT, tokens, tokens * DOCUMENT) for name, tokens in pairs])


def _with_adapters(kernels: Efficiency, layers: Measured, kept: Array, gpu: GpuSpec) -> Efficiency:
    size = gpu.memory_gigabytes_per_second * 1e9
    shapes = [shape_of(name) for name in layers.models]
    traffic = np.array([adapter_bytes(model, 1) for model in shapes]) * layers.tokens / size
    design = np.stack([traffic, np.full_like(traffic, 1e-3)], axis=1) / layers.seconds[:, None]
    missing = np.maximum(0.0, 1 - layer_seconds(kernels, layers, gpu) / layers.seconds)
    adapters, fixed = nnls(design[kept], missing[kept])[0]
    logits = np.array([2.0 * model.vocabulary for model in shapes]) * layers.tokens / size
    heads = np.array([head_seconds(kernels, model, gpu, 1) for model in shapes]) * layers.tokens
    share, lacking = logits / layers.ends, 1 - heads / layers.ends
    passes = max(0.0, float((share * lacking)[kept].sum() / (share**2)[kept].sum()))
    return kernels._replace(adapters=float(adapters), fixed=kernels.fixed + float(fixed) * 1e-3, logits=passes)


def document(tables: Path) -> dict[str, Any]:
    """The content of the source file."""
    layers = read_layers(tables / "lorafusion/layer_times.csv")
    fits = {}
    for name, (cluster, _) in FAMILIES.items():
        points, gpu = (
            read_composites(tables / f"derived/{name}_layer_lora_composite.csv"),
            cluster_spec(cluster, 1, 8).gpu,
        )
        fits[name] = (points, gpu, fit_kernels(points, gpu))
    whole, apart = fit_adapters(fits["h100"][2], layers, fits["h100"][1])
    families = []
    for name, (points, gpu, kernels) in fits.items():
        errors = np.abs(left_out(points, gpu))
        fixed = kernels.fixed + whole.fixed - fits["h100"][2].fixed
        known = kernels._replace(adapters=whole.adapters, fixed=fixed, logits=whole.logits)
        tokens = np.concatenate([each.profile.tokens for each in points])
        lengths = np.concatenate([each.profile.lengths for each in points])
        told = (
            f"efficiencies of {name.upper()} kernels up to {tokens.max():.0f} tokens (models left out: "
            f"{errors.mean():.1%} off), adapters and loss of measured H100 layers ({np.abs(apart).mean():.1%})"
        )
        families.append(
            {
                "gpus": list(FAMILIES[name][1]),
                "scaled_by": gpu.name,
                "dtype": "bfloat16",
                "points": len(tokens),
                "models": list(dict.fromkeys(each.model for each in points)),
                "tokens": [int(tokens.min()), int(tokens.max())],
                "lengths": [int(lengths.min()), int(lengths.max())],
                "held_out_error": {"kernels": _short(errors.mean()), "largest": _short(errors.max())},
                "coefficients": _body(known),
                "note": told,
            }
        )
    held = {"layers": _short(np.abs(apart).mean()), "largest": _short(np.abs(apart).max()), "points": len(apart)}
    return {"schema": 1, "kind": "efficiency", "source": SOURCE, "adapters": held, "families": families}


def _body(known: Efficiency) -> Mapping[str, Any]:
    body = known._asdict()
    return {
        name: [_short(each) for each in value] if isinstance(value, tuple) else _short(value)
        for name, value in body.items()
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, help="folder with the tables")
    parser.add_argument("--output", type=Path, default=FILE)
    options = parser.parse_args(arguments)
    content = document(options.tables)
    write_atomically(options.output, json.dumps(content, indent=1) + "\n")
    sys.stdout.writelines(f"{', '.join(family['gpus'])}: {family['note']}\n" for family in content["families"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
