"""From a profile of one layer to the floor form: `python -m costmodel.fit PROFILE.csv --output FILE`.

A profile is a table tp, seq_len, mbs, time: milliseconds of one layer, forward plus backward, for mbs sequences of
seq_len tokens. For each tp the form max(floor, a0 + a1 N + a2 S2) is fitted by relative least squares under a0, a1, a2
>= 0. The floor is found by search: for every number of smallest micro-batches that may lie on it, floor and line are
both known in closed form or by non-negative least squares, and the pair with the least error of the whole form wins.

Where FILE exists, its description (hardware, engine, source, forward shares) stays and only the fits are made anew.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.optimize import nnls

from costmodel.sources import read_source
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.files import write_atomically

COLUMNS = ("tp", "seq_len", "mbs", "time")
# Backward is 0.99-1.28 times forward for LoRA layers measured at 512 tokens a sequence (LoRAFusion's profiles, mean
# 1.116 of 30 points), and 3 times for attention alone (FlashAttention-2 on H100: 2.9 at 8,192 tokens to 3.6 at 512).
FORWARD_SHARE = {
    "linear": 0.473,
    "attention": 0.25,
    "source": "backward / forward 1.116 (LoRAFusion, 30 LoRA layers); attention 3.0 (FlashAttention-2, H100)",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured layer times of one tp; columns of [n]."""

    tp: int
    lengths: Array  # float64, tokens of a sequence
    tokens: Array  # float64, tokens of the micro-batch
    squares: Array  # float64, sum of squared lengths
    seconds: Array  # float64, forward plus backward


@dataclass(frozen=True, slots=True)
class Fit:
    """max(floor, fixed + token N + square S2) seconds for one tp."""

    floor: float
    fixed: float
    token: float
    square: float

    def seconds(self, profile: Profile) -> Array:
        """What the form says for every point of the profile."""
        line = self.fixed + self.token * profile.tokens + self.square * profile.squares
        return np.maximum(self.floor, line)

    def errors(self, profile: Profile) -> Array:
        """Relative errors, signed."""
        return self.seconds(profile) / profile.seconds - 1


def read_profile(path: Path) -> tuple[Profile, ...]:
    """The profiles of a table, one a tp, ascending; BadInput names line and column of a bad value."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise BadInput(f"profile {path}: columns are {reader.fieldnames}; they must be {', '.join(COLUMNS)}")
            rows = [_numbers(path, reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"profile {path}: it cannot be read ({error})") from error
    if not rows:
        raise BadInput(f"profile {path}: it has no rows; give at least four points a tp")
    table = np.asarray(rows)
    profiles = []
    for tp in np.unique(table[:, 0]):
        part = table[table[:, 0] == tp]
        if len(part) < 4:
            raise BadInput(f"profile {path}: tp {tp:.0f} has {len(part)} points; at least four are needed")
        length, count = part[:, 1], part[:, 2]
        profiles.append(Profile(int(tp), length, length * count, length**2 * count, part[:, 3] * 1e-3))
    return tuple(profiles)


def _numbers(path: Path, line: int, row: dict[str, Any]) -> list[float]:
    values = []
    for column in COLUMNS:
        try:
            value = float(row[column])
        except (TypeError, ValueError):
            value = float("nan")
        if not 0 < value < float("inf"):
            raise BadInput(f"profile {path}, line {line}: {column} is {row[column]!r}; it must be a number above 0")
        values.append(value)
    return values


def fit_profile(profile: Profile) -> Fit:
    """The floor form with the least relative squared error that the search finds."""
    order = np.lexsort((profile.squares, profile.tokens))
    inverse = 1 / profile.seconds[order]
    design = np.stack([np.ones(len(order)), profile.tokens[order], profile.squares[order]], axis=1) * inverse[:, None]
    best, least = Fit(0.0, 0.0, 0.0, 0.0), float("inf")
    for low in range(len(order) - 2):  # the smallest `low` micro-batches lie on the floor
        floor = float(inverse[:low].sum() / (inverse[:low] ** 2).sum()) if low else 0.0
        scale = design[low:].max(axis=0)
        solution, _ = nnls(design[low:] / scale, np.ones(len(order) - low))
        fixed, token, square = (float(value) for value in solution / scale)
        candidate = Fit(floor, fixed, token, square)
        error = float((candidate.errors(profile) ** 2).sum())
        if error < least:
            best, least = candidate, error
    return best


def describe(profile: Profile, fit: Fit) -> dict[str, Any]:
    """The fit as it stands in a source file: coefficients in seconds, hull of the points, relative errors."""
    errors = np.abs(fit.errors(profile))
    large = profile.tokens >= 1024
    return {
        "tp": profile.tp,
        "floor_seconds": _short(fit.floor),
        "fixed_seconds": _short(fit.fixed),
        "run_seconds": 0.0,
        "token_seconds": _short(fit.token),
        "square_seconds": _short(fit.square),
        "points": len(profile.seconds),
        "tokens": [int(profile.tokens.min()), int(profile.tokens.max())],
        "lengths": [int(profile.lengths.min()), int(profile.lengths.max())],
        "mean_error": round(float(errors.mean()), 4),
        "mean_error_from_1024_tokens": round(float(errors[large].mean()), 4) if large.any() else None,
        "largest_error": round(float(errors.max()), 4),
    }


def _short(value: float) -> float:
    return float(f"{value:.8g}")


def source_document(profiles: Sequence[Profile], description: dict[str, Any]) -> str:
    """The source file, as YAML text."""
    fits = [describe(profile, fit_profile(profile)) for profile in profiles]
    document = {"schema": 1, "kind": "floor_form", **description, "fits": fits}
    head = "# Layer times, max(floor, fixed + token N + square S2) seconds; made by `python -m costmodel.fit`.\n"
    text: str = yaml.safe_dump(document, sort_keys=False, width=120, default_flow_style=None)
    return head + text


def _description(options: argparse.Namespace) -> dict[str, Any]:
    if options.output.exists():
        old = read_source(options.output, "floor_form")
        return {key: value for key, value in old.items() if key not in ("schema", "kind", "fits")}
    for field in ("gpu", "model", "source"):
        if getattr(options, field) is None:
            raise BadInput(f"--{field} is missing; {options.output} does not exist yet, so say what was measured")
    return {
        "gpu": options.gpu,
        "model": options.model,
        "status": "measured",
        "engine": options.engine,
        "kernel": options.kernel,
        "dtype": options.dtype,
        "source": options.source,
        "forward_share": FORWARD_SHARE,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit a profile and write the source file; exit code 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m costmodel.fit", description="Fit layer times to a profile.")
    parser.add_argument("profile", type=Path, help="CSV with columns tp, seq_len, mbs, time (milliseconds a layer)")
    parser.add_argument("--output", type=Path, required=True, help="YAML to write; if it exists, its description stays")
    for field in ("gpu", "model", "source"):
        parser.add_argument(f"--{field}", help="needed where the output does not exist yet")
    for field in ("engine", "kernel", "dtype"):
        parser.add_argument(f"--{field}", default="unstated")
    options = parser.parse_args(arguments)
    try:
        profiles = read_profile(options.profile)
        write_atomically(options.output, source_document(profiles, _description(options)))
    except BadInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{options.output}: tp {', '.join(str(profile.tp) for profile in profiles)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
