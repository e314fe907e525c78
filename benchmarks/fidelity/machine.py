"""This machine: steps of a real run beside the simulator's, from the folder of `lobra validate`.

The profile, the fit and the run are made there; here the steps are judged. The first step warms up and does not count.
"""

import json
from pathlib import Path

import numpy as np

from fidelity.rows import Held, Row, row


def rows(folder: Path) -> list[Row]:
    """One row; FileNotFoundError where the folder holds no summary."""
    told = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    plays = np.array([told["measured_seconds"], *told["again_seconds"]])
    measured, predicted = np.median(plays, axis=0)[1:], np.array(told["predicted_seconds"])[1:]
    place, noise = told["place"], told["step_noise"]
    held = Held(predicted, measured, (f"{place['ranks']} ranks on {place['cores']} cores",) * len(measured))
    apart = "not measured" if noise is None else f"plays of the same step differ by {noise:.1%}"
    fitted = "layer times, contention and the rest of a step, to a profile of this machine; no step of the run"
    return [row(f"this machine, steps of {folder.name}", held, 0.10, fitted, noise=apart)]
