"""From the samples of `lobra profile` to a source file of the floor form."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from costmodel.layer import LayerPrice, directions
from costmodel.profile import Fit, fit_profile
from costmodel.samples import PLACE, Samples, Timed
from lobra.errors import BadInput
from lobra.plan import Shape

# Backward is 0.99-1.28 times forward for LoRA layers measured at 512 tokens a sequence (LoRAFusion's profiles, mean
# 1.116 of 30 points), and 3 times for attention alone (FlashAttention-2 on H100: 2.9 at 8,192 tokens to 3.6 at 512).
FORWARD_SHARE = {
    "linear": 0.473,
    "attention": 0.25,
    "source": "backward / forward 1.116 (LoRAFusion, 30 LoRA layers); attention 3.0 (FlashAttention-2, H100)",
}
ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2}
RESERVE = 0.2  # of a rank's memory: kernels' own, allocator, communication; what backward keeps is counted exactly
ROUND = 128  # tokens
GIB = 2**30


def fitted_fits(samples: Samples, *, max_tokens: int | None, memory_gib: float | None) -> list[dict[str, Any]]:
    """What the file says beside the layer times of each tp: contention and max tokens."""
    extras = []
    for tp in samples.tps:
        extra: dict[str, Any] = {}
        if (factor := contention(samples, tp)) is not None:
            cores, ranks = (int(samples.place[column]) for column in ("cores", "ranks"))
            extra["contention"] = {"ranks": ranks, "cores": cores, "factor": round(factor, 4)}
        tokens = max_tokens if max_tokens is not None else tokens_that_fit(samples, tp, memory_gib)
        if tokens:
            extra["max_tokens"] = tokens
        extras.append(extra)
    return extras


def contention(samples: Samples, tp: int) -> float | None:
    """How much slower micro-batches are with all ranks busy: of the points that were timed both ways, all together.

    Large points weigh most: they are what a step spends its time on, while small ones wait more than they compute.
    """
    alone = {_shape(each): each.seconds for each in samples.alone(tp)}
    both = [(each.seconds, alone[_shape(each)]) for each in samples.crowded(tp) if _shape(each) in alone]
    if not both:
        return None
    return max(1.0, sum(crowded for crowded, _ in both) / sum(quiet for _, quiet in both))


def rest_seconds(samples: Samples) -> tuple[float, float]:
    """What a step takes beyond its micro-batches when no rank waits for another: so much, and so much for each tenant.

    Summing gradients and updating go tenant by tenant. Least squares of the medians by number of tenants; with a single
    number of them all of it is fixed, and those of crowded points count alone.
    """
    by_tenants: dict[int, list[float]] = {}
    for each in samples.timed:
        by_tenants.setdefault(each.tenants, []).append(each.rest)
    if len(by_tenants) < 2:
        rest = [each.rest for each in samples.timed if each.crowded]
        return (median(rest) if rest else 0.0), 0.0
    counts, weights = (
        np.array(sorted(by_tenants), np.float64),
        np.sqrt([len(by_tenants[n]) for n in sorted(by_tenants)]),
    )
    columns = np.stack([np.ones_like(counts), counts], axis=1) * weights[:, None]
    medians = np.array([median(by_tenants[number]) for number in sorted(by_tenants)])
    fixed, tenant = lsq_linear(columns, medians * weights, bounds=(0.0, np.inf)).x
    return float(fixed), float(tenant)


def deploy_seconds_per_gib(samples: Samples) -> float | None:
    """Seconds for every GiB of weights that a rank takes into service; None where no deployment was timed.

    The executor makes a rank's stage anew whatever it holds already, so it goes by the whole of it. The median over
    deployments of one tp and recomputation each.
    """
    timed = {(each.tp, each.recompute): each.deploy for each in samples.timed if each.deploy > 0}
    found = [seconds * GIB / weight_bytes(samples, tp) for (tp, _), seconds in timed.items()]
    return median(found) if found else None


def weight_bytes(samples: Samples, tp: int) -> float:
    """Frozen weights of a rank that holds a whole model: layers are cut by tp, tables are not."""
    layers, each, whole = (int(samples.place[name]) for name in ("layers", "layer_parameters", "parameters"))
    item = ITEM_BYTES.get(samples.place["dtype"])
    if item is None:
        raise BadInput(f"samples: dtype is {samples.place['dtype']!r}; choose {', '.join(ITEM_BYTES)}")
    return item * (layers * each / tp + whole - layers * each)


def tokens_that_fit(samples: Samples, tp: int, memory_gib: float | None) -> int | None:
    """Tokens of a micro-batch whose activations fit beside the weights; None where nobody counted bytes."""
    counted = [each for each in samples.alone(tp) if each.saved_bytes]
    if not counted:
        return None
    memory = memory_gib if memory_gib is not None else float(samples.place["memory_gib"])
    room = memory * GIB * (1 - RESERVE) - weight_bytes(samples, tp)
    token = max(point.saved_bytes / point.tokens for point in counted)
    return max(0, int(room / token) // ROUND * ROUND)


def forward_share(samples: Samples, fits: Sequence[Fit]) -> dict[str, Any]:
    """Shares of all but attention, and of attention, that are forward: fitted to the forward times of all points."""
    parts, shares = [], []
    for tp, fit in zip(samples.tps, fits, strict=True):
        for each in samples.alone(tp):
            linear = fit.fixed + fit.run * each.runs + fit.token * each.tokens
            attention = fit.square * each.squares
            if linear + attention >= fit.floor and linear + attention > 0:
                parts.append([linear / (linear + attention), attention / (linear + attention)])
                shares.append(each.forward / each.seconds)
    linear, attention = lsq_linear(np.array(parts), np.array(shares), bounds=(0.02, 0.5)).x if parts else (0.5, 0.5)
    return {
        "linear": round(float(linear), 4),
        "attention": round(float(min(attention, linear)), 4),
        "source": "fitted to the forward times of the same samples; the form allows at most one half",
    }


def recompute_errors(samples: Samples, fits: Sequence[Fit], share: dict[str, Any]) -> dict[str, float]:
    """Mean relative error of the derived price of recomputation, where it was timed."""
    errors: dict[str, float] = {}
    for tp, fit in zip(samples.tps, fits, strict=True):
        price = LayerPrice(fit.floor, fit.fixed, fit.run, fit.token, fit.square, share["linear"], share["attention"])
        for recompute in sorted({each.recompute for each in samples.timed if each.tp == tp and each.recompute}):
            points = samples.alone(tp, recompute)
            told = [sum(directions(price, samples.layers, recompute, _priced(each))) for each in points]
            relative = [abs(says / each.seconds - 1) for says, each in zip(told, points, strict=True)]
            errors[f"tp {tp} recompute {recompute}"] = round(float(np.mean(relative)), 4)
    return errors


def description(samples: Samples, gpu: str) -> dict[str, Any]:
    """Where the times come from."""
    place, (fixed, tenant), deploy = samples.place, rest_seconds(samples), deploy_seconds_per_gib(samples)
    return {
        "gpu": gpu,
        "model": place["model"],
        "status": "measured",
        "engine": "executor of this project",
        "kernel": "attention of the executor by segments",
        "dtype": place["dtype"],
        "source": f"lobra profile on {place['hardware']}, {place['date']}, torch {place['torch']}, "
        f"{place['repeats']} repeats, medians",
        "place": {column: place[column] for column in PLACE},
        "noise": round(samples.noise, 4),
        "rest_seconds": float(f"{fixed:.6g}"),
        "rest_tenant_seconds": float(f"{tenant:.6g}"),
    } | ({} if deploy is None else {"deploy_seconds_per_gib": float(f"{deploy:.6g}")})


def fits_of(samples: Samples) -> list[Fit]:
    """The floor form of each tp, of a layer."""
    return [fit_profile(samples.profile(tp)) for tp in samples.tps]


def _shape(each: Timed) -> tuple[int, ...]:
    return each.rows, each.tokens, each.longest, each.squares, each.runs


def _priced(each: Timed) -> Shape:
    return Shape(each.rows, each.tokens // each.rows, each.tokens, each.tokens, each.squares, each.runs, 1)
