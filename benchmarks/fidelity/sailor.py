"""Sailor's measured iterations: full training in pipelines on GH200 and on mixed RTX cards, from its layer profiles.

Nothing is fitted. A stage is the sum of its layers on the slowest of the run's cards (which card holds which stage is
not said); an iteration is m - 1 times the slowest stage, every stage once, and the update. Gradient sums and messages
between stages are left out: no profile of those networks is at hand.
"""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from fidelity.rows import Held, Row, row
from fidelity.tables import column, read_rows
from lobra.batch import Array

RUNS, PROFILES = "gpu_profiles/sailor/validation_measured.csv", "gpu_profiles/sailor/layer_profiles.csv.gz"
PROFILED = {"OPT-350": "OPT-350", "GPT-NEO": "GPT-Neo-2.7"}
MIXED = "mit"  # the site whose runs mix cards
Key = tuple[str, str, int, int]  # model, card, tp, sequences of a micro-batch
NOTES = (
    "two runs with the same time to the last digit count once",
    "the GH200 profile of GPT-Neo has 26 layers, its runs 34: inner layers are repeated",
    "all eight runs of GPT-Neo with micro-batches of 4 come out 53 to 57 % short: that part of the profile is wrong",
)


def rows(reference_data: Path) -> list[Row]:
    """All runs, and those on mixed cards apart."""
    table = list({each["measured_iter_s"]: each for each in read_rows(reference_data / RUNS)}.values())
    profiles = read_profiles(read_rows(reference_data / PROFILES))
    predicted = np.array([iteration(each, profiles) for each in table])
    measured, sums = column(table, "measured_iter_s"), column(table, "red_grads_s")
    groups = np.array([f"{each['site']} {each['model']}" for each in table])
    mixed = np.array([each["site"] == MIXED for each in table])
    found = []
    for label, chosen in (("all runs", np.ones_like(mixed)), ("mixed cards", mixed)):
        held = Held(predicted[chosen], measured[chosen], tuple(groups[chosen]))
        rest = Held(predicted[chosen] + np.minimum(sums, measured)[chosen], measured[chosen], held.groups)
        name = f"Sailor, {label}, from its layer profiles"
        found.append(row(name, held, None, "nothing", notes=NOTES, beside={"with_measured_gradient_sums": rest.mean}))
    return found


def read_profiles(table: list[dict[str, str]]) -> dict[Key, Array]:
    """Forward plus backward seconds of every layer [layers], the update beside it as the last number."""
    found: dict[Key, list[float]] = defaultdict(list)
    update: dict[Key, float] = {}
    for each in table:
        key = (each["model"], each["gpu"], int(each["tp"]), int(each["mbs"]))
        found[key].append(float(each["fwd_s"]) + float(each["bwd_s"]))
        update[key] = update.get(key, 0.0) + float(each["update_s"])
    return {key: np.array([*layers, update[key]]) for key, layers in found.items()}


def iteration(run: dict[str, str], profiles: dict[Key, Array]) -> float:
    """Seconds of one run."""
    layers, tps, data = (
        [int(part) for part in run[key].split("/")] for key in ("layers_per_stage", "tp_per_stage", "dp")
    )
    size = int(run["mbs"])
    model = PROFILED[run["model"]]
    times = [
        resized(np.max([profiles[model, card, tp, size][:-1] for card in json.loads(run["gpus"])], axis=0), sum(layers))
        for tp in tps
    ]
    ends = np.cumsum(layers)
    stages = [
        float(times[number][end - count : end].sum())
        for number, (end, count) in enumerate(zip(ends, layers, strict=True))
    ]
    update = max(float(profiles[model, card, tp, size][-1]) for card in json.loads(run["gpus"]) for tp in tps)
    micro_batches = max(1.0, int(run["gbs"]) / (data[0] * size))
    return (micro_batches - 1) * max(stages) + sum(stages) + update / len(stages)


def resized(layers: Array, count: int) -> Array:
    """So many layers: the first and the last as they are, the inner ones repeated or left out."""
    inner = np.full(max(0, count - 2), float(np.median(layers[1:-1])))
    return np.array([layers[0], *inner, layers[-1]])
