"""Models that nobody timed: the roofline of measured efficiencies, held against what was not used to fit it.

Kernels of a model left out, LoRA layers of a model left out, and three tables that no number was fitted to: the paper's
step times and its authors' profile on A100, and four recipes of NeMo on H100. Beside the latter the roofline of assumed
efficiencies, which serves hardware without kernel tables.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from costmodel.efficiency import Efficiency, efficient_layer
from costmodel.fit import read_profile
from costmodel.fit_efficiency import FAMILIES, fit_adapters, fit_kernels, left_out, read_composites, read_layers
from costmodel.hardware import cluster_spec, model_spec
from costmodel.messages import messages_of
from costmodel.roofline import roofline_head, roofline_price
from fidelity.h100 import DEPTHS, NEMO, REPEATS, repeats
from fidelity.lobra_layers import FILE, NOISE
from fidelity.lobra_steps import TABLE_9
from fidelity.rows import Held, Row, row
from fidelity.tables import column, present, read_rows
from lobra.batch import Array
from lobra.spec import ClusterSpec, ModelSpec

PROFILES = "gpu_profiles"
RECOMPUTED = 0.473  # of a layer: one forward more
RECIPES = {  # hidden, intermediate, heads, key and value heads, vocabulary, of published configurations
    "Llama3-8B": (4096, 14336, 32, 8, 128256),
    "Qwen2.5-7B": (3584, 18944, 28, 4, 152064),
    "Llama3-70B": (8192, 28672, 64, 8, 128256),
    "Qwen2.5-32B": (5120, 27648, 40, 8, 152064),
}
NOT_FITTED = "kernels of other tables and LoRA layers on H100; nothing to this table"


class Layered(NamedTuple):
    """Seconds of a layer for b sequences of s tokens, and of the head a token."""

    layer: Callable[[float, float], float]
    head: float


Form = Callable[[ModelSpec, ClusterSpec, int], Layered]


def rows(reference_data: Path) -> list[Row]:
    """All of them."""
    folder = present(reference_data / PROFILES)
    fits, found = {}, []
    for name, (cluster, _) in FAMILIES.items():
        points, gpu = (
            read_composites(folder / f"derived/{name}_layer_lora_composite.csv"),
            cluster_spec(cluster, 1, 8).gpu,
        )
        fits[name] = fit_kernels(points, gpu)
        measured = np.concatenate([each.profile.seconds for each in points])
        groups = tuple(f"{each.model} tp {each.tp}" for each in points for _ in each.profile.seconds)
        tokens = np.concatenate([each.profile.tokens for each in points])
        held = Held((1 + left_out(points, gpu)) * measured, measured, groups, tokens)
        fitted = "one set of efficiencies to the other models, all tp together"
        found.append(row(f"{name.upper()} layer composites, a model left out: efficiencies", held, None, fitted))
    gpu, layers = cluster_spec("h100_80gb", 1, 8).gpu, read_layers(folder / "lorafusion/layer_times.csv")
    known, errors = fit_adapters(fits["h100"], layers, gpu)
    held = Held((1 + errors) * layers.seconds, layers.seconds, layers.models, layers.tokens)
    noise = f"two measurements of the same layers differ by {repeats(read_rows(reference_data / REPEATS))[0]:.1%}"
    told = "efficiencies to kernels; the adapters' passes and a fixed part to the other two models"
    found.append(row("LoRAFusion layers, two models predict the third: efficiencies", held, None, told, noise=noise))
    return found + _unseen(reference_data, fits, known)


def _unseen(reference_data: Path, kernels: dict[str, Efficiency], known: Efficiency) -> list[Row]:
    """The three tables, by both rooflines."""
    fixed = kernels["a100"].fixed + known.fixed - kernels["h100"].fixed
    families = {
        "h100": known,
        "a100": kernels["a100"]._replace(adapters=known.adapters, fixed=fixed, logits=known.logits),
    }

    def efficient(model: ModelSpec, cluster: ClusterSpec, tp: int) -> Layered:
        family = families["h100" if cluster.gpu.name.startswith("H") else "a100"]
        layer = efficient_layer(family, model, cluster, tp, messages_of(cluster))
        view, price = layer.view, layer.price

        def seconds(b: float, s: float) -> float:
            return sum(curve.seconds(1, b, b * s, b * s * s) for curve in view)

        return Layered(seconds, layer.head * price.token)

    forms: dict[str, Form] = {"efficiencies": efficient, "assumed efficiencies": assumed}
    found = []
    for name, form in forms.items():
        fitted = NOT_FITTED if form is efficient else "nothing"
        for label, held, noise in (
            ("LobRA Table 9, nothing fitted to it", steps(read_rows(reference_data / TABLE_9), form), NOISE),
            ("LobRA 7B profile, nothing fitted to it", profiled(present(reference_data / FILE), form), NOISE),
            ("NeMo LoRA on H100, nothing fitted to it", recipes(read_rows(reference_data / NEMO), form), "unknown"),
        ):
            found.append(row(f"{label}: roofline of {name}", held, None, fitted, noise=noise))
    return found


def assumed(model: ModelSpec, cluster: ClusterSpec, tp: int) -> Layered:
    """The roofline of assumed efficiencies."""
    price = roofline_price(model, cluster, tp, messages_of(cluster))
    head = roofline_head(model, cluster, tp, price, messages_of(cluster)) * price.token

    def seconds(b: float, s: float) -> float:
        return max(price.floor, price.fixed + price.token * b * s + price.square * b * s * s)

    return Layered(seconds, head)


def steps(table: list[dict[str, str]], form: Form) -> Held:
    """Table 9: every stage once, and the last one, which has the head, for all other micro-batches."""
    model, cluster = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
    predicted, groups, sizes = [], [], []
    for each in table:
        tp, pp, replicas, s, m = (
            int(each[key]) for key in ("tp", "pp", "replicas", "sequence_length", "micro_batches")
        )
        priced, b = form(model, cluster, tp), 64 / replicas / m
        whole, head = model.layers * priced.layer(b, s), priced.head * b * s
        predicted.append(whole + head + (m - 1) * (whole / pp + head))
        groups.append(f"<{tp},{pp}>")
        sizes.append(b * s)
    return Held(np.array(predicted), column(table, "lobra_seconds"), tuple(groups), np.array(sizes))


def profiled(path: Path, form: Form) -> Held:
    """The authors' profile of a layer."""
    model, cluster = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
    predicted: list[float] = []
    measured: list[float] = []
    groups: list[str] = []
    sizes: list[float] = []
    for profile in read_profile(path):
        priced = form(model, cluster, profile.tp)
        pairs = zip(profile.lengths.tolist(), profile.tokens.tolist(), strict=True)
        predicted += [priced.layer(tokens / s, s) for s, tokens in pairs]
        measured += profile.seconds.tolist()
        sizes += profile.tokens.tolist()
        groups += [f"tp {profile.tp}"] * len(profile.seconds)
    return Held(np.array(predicted), np.array(measured), tuple(groups), np.array(sizes))


def recipes(table: list[dict[str, str]], form: Form) -> Held:
    """NeMo's steps: micro-batches of layers, forward twice where recomputed, and the head."""
    table = [each for each in table if each["lora_kernels_modelled"] == "True"]
    cluster = cluster_spec("h100_80gb", 1, 8)
    predicted = []
    for each in table:
        tp, s, b, count, recomputed = (int(each[key]) for key in ("tp", "seq", "mbs", "grad_accum", "act_ckpt"))
        model = ModelSpec(each["model"], DEPTHS[each["model"]], *RECIPES[each["model"]])
        priced = form(model, cluster, tp)
        layers = model.layers * priced.layer(b, s) * (1 + RECOMPUTED * recomputed)
        predicted.append(count * (layers + priced.head * b * s))
    sizes: Array = column(table, "seq") * column(table, "mbs")
    return Held(np.array(predicted), column(table, "measured_step_s"), tuple(each["model"] for each in table), sizes)
