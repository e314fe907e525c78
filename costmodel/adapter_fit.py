"""What the adapters' kernels cost, from public tables: `python -m costmodel.adapter_fit TABLES --output FILE`.

TABLES is a folder with times of bfloat16 products (GPU, m, n, k, milliseconds), LoRAFusion's counted DRAM traffic of
one linear layer with an adapter (unfused and fused), and layers summed up from kernels with and without adapters.

passes: by how many times the layer's inputs and outputs unfused kernels move more than fused ones, the mean of the
shapes counted. products: the median time of products of at most 256 tokens with 32 rows or columns. bandwidth_share: of
the memory's bandwidth, what makes those passes take as long as the kernels of the summed layers at rank 16.
"""

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from costmodel.adapters import BETWEEN, BYTES, EFFICIENCY, FILE, OPERATIONS
from costmodel.hardware import cluster_spec
from costmodel.memory import adapter_widths
from lobra.files import write_atomically
from lobra.spec import ModelSpec, Tenant

PRODUCTS = {"a100": ("A100-40GB", "A100-80GB", "A800-80GB"), "h100": ("H100-80GB",), "h200": ("H200",)}
TRAFFIC, LAYERS = "lorafusion/end_to_end_throughput.json", "derived/h100_lora_layer_vs_lorafusion.csv"
SMALL, SMALL_RANK, SIDES = 256, 32, (1024, 16384)  # tokens; rows or columns; the other side of such a product
RANK = 16  # of the summed layers
SHAPES = {  # hidden, intermediate, heads, key and value heads of the summed layers
    "llama-3.1-8b-instruct": (4096, 14336, 32, 8),
    "llama-3.1-70b-instruct": (8192, 28672, 64, 8),
    "qwq-32b": (5120, 27648, 40, 8),
}


def passes(folder: Path) -> float:
    """Of the inputs and outputs of a layer, unfused less fused."""
    counted = json.loads((folder / TRAFFIC).read_text(encoding="utf-8"))["dram_traffic_GiB_per_linear"]
    found = []
    for shape, unfused, fused in zip(counted["shapes_MKN"], counted["torch_lora"], counted["fused_lora"], strict=True):
        tokens, inputs, outputs = map(int, shape.split("x"))
        found.append((unfused - fused) * 2**30 / (BYTES * tokens * (inputs + outputs)))
    return float(np.mean(found))


def product_median(folder: Path, hardware: str) -> tuple[float, int]:
    """Seconds of a small product, and how many were timed."""
    with gzip.open(folder / f"aiconfigurator/gemm_bf16_{hardware}_sxm.csv.gz", "rt", encoding="utf-8") as file:
        times = [
            float(row["latency_ms"]) * 1e-3
            for row in csv.DictReader(file)
            if int(row["m"]) <= SMALL
            and SMALL_RANK in (int(row["n"]), int(row["k"]))
            and SIDES[0] <= max(int(row["n"]), int(row["k"])) <= SIDES[1]
        ]
    return float(np.median(times)), len(times)


def bandwidth_share(folder: Path, moved: float) -> float:
    """What such passes reach of the H100's memory bandwidth, by summed layers of three models."""
    gpu = cluster_spec("h100_80gb", 1, 8).gpu
    with (folder / LAYERS).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    shares = []
    for name, (hidden, intermediate, heads, kv_heads) in SHAPES.items():
        own = [row for row in rows if row["model"] == name]
        tokens = np.array([float(row["tokens"]) for row in own])
        extra = np.array([float(row["pred_fb"]) - float(row["pred_fb_nolora"]) for row in own]) * 1e-3
        design = np.stack([np.ones_like(tokens), tokens], axis=1) / extra[:, None]
        slope = float(np.linalg.lstsq(design, np.ones_like(extra), rcond=None)[0][1])
        model = ModelSpec(name, 1, hidden, intermediate, heads, kv_heads, 1)
        widths = adapter_widths(model, Tenant(name="timed", batch_size=1, context_limit=1, rank=RANK))
        both = sum(map(sum, widths.values()))
        size = BYTES * (moved * both + BETWEEN * RANK * len(widths))
        computing = OPERATIONS * RANK * both / (gpu.teraflops * 1e12 * EFFICIENCY)
        shares.append(size / (gpu.memory_gigabytes_per_second * 1e9) / (slope - computing))
    return float(np.mean(shares))


def document(folder: Path) -> dict[str, Any]:
    """The content of the source file."""
    moved = round(passes(folder), 3)
    products = []
    for hardware, gpus in PRODUCTS.items():
        seconds, points = product_median(folder, hardware)
        products.append({"gpus": list(gpus), "seconds": float(f"{seconds:.4g}"), "points": points})
    return {
        "schema": 1,
        "kind": "adapters",
        "status": "derived",
        "dtype": "bfloat16",
        "source": "passes: DRAM traffic counted by LoRAFusion's authors (CentML/lorafusion, commit c48d7fd, H100), "
        "three shapes; products: kernel tables of aiconfigurator-core 0.12.0 (Apache-2.0), those of A100 for A800 too; "
        "bandwidth_share: layers of three models summed up from the same tables, H100",
        "passes": moved,
        "bandwidth_share": round(bandwidth_share(folder, moved), 3),
        "products": products,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Derive the numbers and write the source file; exit code 2 where a table is absent."""
    parser = argparse.ArgumentParser(prog="python -m costmodel.adapter_fit", description="Price adapters' kernels.")
    parser.add_argument("tables", type=Path, help=f"folder with {TRAFFIC}, {LAYERS} and aiconfigurator/")
    parser.add_argument("--output", type=Path, default=FILE, help="YAML to write")
    options = parser.parse_args(arguments)
    try:
        made = document(options.tables)
    except FileNotFoundError as error:
        sys.stderr.write(f"table {error.filename}: it is absent\n")
        return 2
    head = "# What adapters' own kernels cost; made by `python -m costmodel.adapter_fit TABLES`.\n"
    text: str = yaml.safe_dump(made, sort_keys=False, width=120, default_flow_style=None)
    write_atomically(options.output, head + text)
    sys.stdout.write(f"{options.output}: {len(made['products'])} GPUs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
