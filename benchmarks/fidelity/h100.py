"""LoRA training measured on H100: four recipes of NeMo Automodel, and LoRAFusion's layers of three models.

Predicted by sums of kernels that others measured (GEMM, attention, all-reduce), LoRA's own included.
"""

from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from fidelity.rows import Held, Row, leave_out, one_scalar, row
from fidelity.tables import column, read_rows
from lobra.batch import Array

NEMO = "gpu_profiles/derived/h100_lora_e2e_prediction_check.csv"
LAYERS = "gpu_profiles/derived/h100_lora_layer_vs_lorafusion.csv"
REPEATS = "gpu_profiles/lorafusion/layer_times.csv"
DEPTHS = {"Llama3-8B": 32, "Qwen2.5-7B": 28, "Llama3-70B": 80, "Qwen2.5-32B": 64}


def rows(reference_data: Path) -> list[Row]:
    """NeMo and LoRAFusion."""
    nemo = recipes(read_rows(reference_data / NEMO))
    return [
        row("NeMo LoRA on H100, nothing fitted", nemo, None, "nothing: sums of kernels"),
        row(
            "NeMo LoRA on H100, one scalar",
            one_scalar(nemo, leave_out(nemo.groups)),
            0.06,
            "one factor of all times, to the other three recipes; nothing else: sums of kernels",
        ),
        *_lorafusion(reference_data),
    ]


def recipes(table: list[dict[str, str]]) -> Held:
    """Step seconds: micro-batches of layers forward and backward, forward twice where recomputed, and the head."""
    table = [each for each in table if each["lora_kernels_modelled"] == "True"]
    forward, backward, head, micro_batches, recomputed, s, b = (
        column(table, key) for key in ("fwd", "bwd", "head", "grad_accum", "act_ckpt", "seq", "mbs")
    )
    depth = np.array([DEPTHS[each["model"]] for each in table])
    predicted = micro_batches * (depth * (forward * (1 + recomputed) + backward) + head) * 1e-3
    models = tuple(each["model"] for each in table)
    return Held(predicted, column(table, "measured_step_s"), models, s * b)


def _lorafusion(reference_data: Path) -> list[Row]:
    table = read_rows(reference_data / LAYERS)
    noise, largest = repeats(read_rows(reference_data / REPEATS))
    told = f"two measurements of the same layers differ by {noise:.1%} on average, {largest:.1%} at most"
    found = []
    both, forward = ([column(table, f"{who}_{what}") for who in ("pred", "meas")] for what in ("fb", "fwd"))
    for what, (predicted, measured) in (
        ("forward and backward", both),
        ("forward", forward),
        ("backward", [whole - part for whole, part in zip(both, forward, strict=True)]),
    ):
        models = tuple(each["model"] for each in table)
        raw = Held(predicted * 1e-3, measured * 1e-3, models, column(table, "tokens"))
        if what == "forward and backward":
            found.append(row("LoRAFusion layers, nothing fitted", raw, None, "nothing: sums of kernels", noise=told))
        label, fitted = (
            f"LoRAFusion layers, two models predict the third: {what}",
            "factor and fixed part, to the others",
        )
        found.append(row(label, factor_and_fixed(raw), None, fitted, noise=told))
    return found


def factor_and_fixed(held: Held) -> Held:
    """A factor times the prediction plus a fixed part, both >= 0, by the relative errors of the models not held out."""
    out = np.empty_like(held.predicted)
    design = np.stack([held.predicted, np.full_like(held.predicted, 1e-3)], axis=1)
    for mask in leave_out(held.groups):
        kept = ~mask
        found = nnls(design[kept] / held.measured[kept, None], np.ones(int(kept.sum())))[0]
        out[mask] = design[mask] @ found
    return Held(out, held.measured, held.groups, held.tokens)


def repeats(table: list[dict[str, str]]) -> tuple[float, float]:
    """Mean and largest relative difference of its two measurements of every layer, as shares of the later one."""
    seconds = {(each["model"], each["tokens"], each["variant"]): float(each["layer_fwd_bwd_s"]) for each in table}
    pairs: Array = np.array(
        [
            (value, seconds[model, tokens, "backup"])
            for (model, tokens, kind), value in seconds.items()
            if kind == "main"
        ]
    )
    apart = np.abs(pairs[:, 0] / pairs[:, 1] - 1)
    return float(apart.mean()), float(apart.max())
