"""Layer times composed of measured kernels on A100, Llama-2, Llama-3 and Qwen at tp 1 to 8: what the forms can follow.

Partly derived: forward kernels were measured, backward ones are taken from them. It tests the forms, not the truth.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from costmodel.profile import Profile
from fidelity.forms import VIEWS, Form, paper_form
from fidelity.rows import Held, Row, folds, held_out, joined, row
from fidelity.tables import column, read_rows
from lobra.batch import Array

FILE = "gpu_profiles/derived/a100_layer_lora_composite.csv"
LEAST, LONG = 16, 4096  # tokens: of a micro-batch that counts; longest sequence of the fit that is extrapolated
BARS = {"solver view": 0.032, "simulator view": 0.016}
DIRECTIONS = {"forward_alone": "fwd_ms", "backward_alone": "bwd_lora_ms"}
RECIPE = (1, 4)  # micro-batch sizes that LobRA's released profiler times
NOISE = "none: medians of kernels"


def rows(reference_data: Path) -> list[Row]:
    """Five folds, and sequences longer than any of the fit."""
    profiles = read(reference_data / FILE)
    found = []
    directions = {name: read(reference_data / FILE, cell) for name, cell in DIRECTIONS.items()}
    for name, form in VIEWS.items():
        held = joined([five_folds(label, profile, form) for label, profile in profiles.items()])
        apart = {
            direction: joined([five_folds(label, profile, form) for label, profile in parts.items()]).mean
            for direction, parts in directions.items()
        }
        fitted = "a curve a (model, tp) to four fifths of its points"
        found.append(row(f"A100 layer composites, 5-fold: {name}", held, BARS[name], fitted, noise=NOISE, beside=apart))
    for name, form in VIEWS.items():
        held = split(profiles, form, lambda profile: profile.lengths > LONG)
        label = f"A100 layer composites, extrapolated to s > 4k: {name}"
        found.append(row(label, held, 0.02, "a curve a (model, tp) to s <= 4,096", noise=NOISE))
    return found


def recipe(reference_data: Path) -> list[Row]:
    """The paper's calibration: micro-batches of 1 and 4 sequences, all others predicted."""
    profiles = read(reference_data / FILE)
    forms: dict[str, tuple[Form, float | None]] = {
        "ours, simulator view": (VIEWS["simulator view"], 0.025),
        "ours, solver view": (VIEWS["solver view"], None),
        "theirs, six coefficients": (paper_form, None),
    }
    found = []
    for name, (form, bar) in forms.items():
        held = split(profiles, form, lambda profile: ~np.isin(_rows(profile), RECIPE))
        found.append(
            row(
                f"the paper's recipe (b in 1, 4; other b predicted): {name}",
                held,
                bar,
                "a curve a (model, tp) to micro-batches of 1 and 4 sequences",
                noise=NOISE,
                beside={"negative_predictions": float((held.predicted <= 0).mean())},
            )
        )
    return found


def read(path: Path, cell: str = "step_ms") -> dict[str, Profile]:
    """The profile of every (model, tp), micro-batches of at least 16 tokens; cell: the column of milliseconds."""
    table = [each for each in read_rows(path) if float(each["tokens"]) >= LEAST]
    labels = np.array([f"{each['model']} tp {each['tp']}" for each in table])
    s, b, seconds = column(table, "s"), column(table, "b"), column(table, cell) * 1e-3
    whole = Profile(0, s, b * s, b * s**2, seconds, rows=b)
    return {str(label): whole.part(labels == label) for label in np.unique(labels)}


def five_folds(label: str, profile: Profile, form: Form) -> Held:
    """Every point predicted from four fifths of the others."""

    def predict(mask: Array) -> Array:
        return form(profile.part(~mask))(profile.part(mask))

    predicted = held_out(len(profile.seconds), folds(len(profile.seconds)), predict)
    return Held(predicted, profile.seconds, (label,) * len(predicted), profile.tokens)


def split(profiles: dict[str, Profile], form: Form, far: Callable[[Profile], Array]) -> Held:
    """Points that the mask chooses, predicted from the rest of their (model, tp)."""
    parts = []
    for label, profile in profiles.items():
        mask = far(profile)
        if mask.any():
            asked = profile.part(mask)
            predicted = form(profile.part(~mask))(asked)
            parts.append(Held(predicted, asked.seconds, (label,) * len(predicted), asked.tokens))
    return joined(parts)


def _rows(profile: Profile) -> Array:
    rows: Array = np.rint(profile.tokens / profile.lengths)
    return rows
