"""This machine: steps of real ranks beside the simulator's, from what two commands left.

`validate_machine.py --json FILE` leaves a file: several policies on held-out batches, two rows. `lobra validate` leaves
a folder: one run, one row. Profile, fit and steps are made there and judged here. Steps that warm up do not count.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fidelity.machine_story import steps_of
from fidelity.rows import Held, Row, row

BAR = 0.10
FITTED = "layer times, contention and the rest of a step, to a profile of this machine; no step of the run"


def rows(path: Path) -> list[Row]:
    """The rows of such a file or folder; FileNotFoundError where there is none."""
    return _policies(path) if path.is_file() else _run(path)


def _run(folder: Path) -> list[Row]:
    body = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    plays = np.array([body["measured_seconds"], *body["again_seconds"]])
    measured, predicted = np.median(plays, axis=0)[1:], np.array(body["predicted_seconds"])[1:]
    place, noise = body["place"], body["step_noise"]
    held = Held(predicted, measured, (_where(place),) * len(measured))
    apart = "not measured" if noise is None else f"plays of the same step differ by {noise:.1%}"
    return [row(f"this machine, steps of {folder.name}", held, BAR, FITTED, noise=apart)]


def _policies(path: Path) -> list[Row]:
    body = json.loads(path.read_text(encoding="utf-8"))
    steps, told = steps_of(body["policies"]), body["figures"]
    groups = tuple(each.policy for each in steps for _ in each.predicted)
    held = Held(
        np.concatenate([each.predicted for each in steps]), np.concatenate([each.typical for each in steps]), groups
    )
    noise = told["repeat_noise"]
    apart = "not measured" if noise is None else f"two plays of the same step differ by {noise:.1%}"
    sittings = ", ".join(f"{share - 1:+.1%}" for share in body["sittings_against_median"])
    notes = [f"{_where(body['place'])}; rounds {body['rounds']}; sittings of the profile against median: {sittings}"]
    first = row(f"this machine, steps of {len(steps)} policies", held, BAR, FITTED, noise=apart, notes=notes)
    return [first, _order(told, len(steps))]


def _order(told: dict[str, Any], policies: int) -> Row:
    same = told["winner"] == told["predicted_winner"]
    close = "; ".join(told["within_noise"]) or "none"
    notes = (
        f"winner {told['winner']}, predicted {told['predicted_winner']}",
        f"pairs whose order the rounds disagree on: {close}",
        f"predicted the other way: {'; '.join(told['disagreed']) or 'none'}",
    )
    evidence = f"this machine, order of {policies} policies (Kendall's tau; holds: same winner)"
    return Row(evidence, told["kendall_tau"], None, told["pairs"], FITTED, holds=same, notes=notes)


def _where(place: dict[str, Any]) -> str:
    return f"{place['ranks']} ranks on {place['cores']} cores"
