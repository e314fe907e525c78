"""From a profile of one layer to the floor form: `python -m costmodel.fit PROFILE.csv --output FILE`.

A profile is a table tp, seq_len, mbs, time: milliseconds of one layer, forward plus backward, for mbs sequences of
seq_len tokens. For each tp the form max(floor, a0 + a1 N + a2 S2) is fitted by relative least squares under a0, a1, a2
>= 0. The floor is found by search: for every number of smallest micro-batches that may lie on it, floor and line are
both known in closed form or by non-negative least squares, and the pair with the least error of the whole form wins.

With --tied, square times tp is one number for all tp: it fits as well and reaches further.

Where FILE exists, its description (hardware, engine, source, forward shares) stays and only the fits are made anew.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from costmodel.fitting import FORWARD_SHARE, description, fits_of, fitted_fits, forward_share, recompute_errors
from costmodel.profile import Fit, Profile, fit_profile, fit_tied
from costmodel.samples import Samples
from costmodel.sources import read_source
from costmodel.views import view_body
from lobra.errors import BadInput
from lobra.files import write_atomically

COLUMNS = ("tp", "seq_len", "mbs", "time")
MAKER = "python -m costmodel.fit"
TOO_FAR = 300.0  # between two tp; tensor parallelism gains or loses less


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
        if len(np.unique(count)) == 1:
            raise BadInput(
                f"profile {path}: tp {tp:.0f} has mbs {count[0]:.0f} only; what a micro-batch costs and what a "
                "token costs cannot be told apart: give several"
            )
        seconds = part[:, 3] * 1e-3
        profiles.append(Profile(int(tp), length, length * count, length**2 * count, seconds, rows=count))
    _refuse_units(path, profiles)
    return tuple(profiles)


def _refuse_units(path: Path, profiles: Sequence[Profile]) -> None:
    """Refuse a tp whose times are in another unit than those of the rest."""
    slowest = [float(np.median(profile.seconds / profile.tokens)) for profile in profiles]
    for profile, seconds in zip(profiles, slowest, strict=True):
        if max(slowest) > TOO_FAR * seconds or seconds > TOO_FAR * min(slowest):
            raise BadInput(
                f"profile {path}: times a token of tp {profile.tp} and of another tp differ by a factor of more than "
                f"{TOO_FAR:.0f}; are some off by a thousand? time is milliseconds of one layer"
            )


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


def describe(profile: Profile, fit: Fit) -> dict[str, Any]:
    """The fit as it stands in a source file: coefficients in seconds, hull of the points, relative errors."""
    errors = np.abs(fit.errors(profile))
    large = profile.tokens >= 1024
    return {
        "tp": profile.tp,
        "floor_seconds": _short(fit.floor),
        "fixed_seconds": _short(fit.fixed),
        "run_seconds": _short(fit.run),
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


def source_document(profiles: Sequence[Profile], description: dict[str, Any], *, tied: bool = False) -> dict[str, Any]:
    """The content of a source file; tied: attention's part a tp is one number divided by tp."""
    fits = fit_tied(profiles) if tied else [fit_profile(profile) for profile in profiles]
    rows = [describe(profile, fit) | view_body(profile, fit) for profile, fit in zip(profiles, fits, strict=True)]
    return {"schema": 1, "kind": "floor_form", **description, "fits": rows}


def samples_document(
    samples: Samples, gpu: str, *, max_tokens: int | None = None, memory_gib: float | None = None
) -> dict[str, Any]:
    """The content of a source file from the samples of `lobra profile`."""
    fits = fits_of(samples)
    share = forward_share(samples, fits)
    extras = fitted_fits(samples, max_tokens=max_tokens, memory_gib=memory_gib)
    rows = [
        describe(samples.profile(tp), fit) | _views(samples, tp, fit) | extra
        for tp, fit, extra in zip(samples.tps, fits, extras, strict=True)
    ]
    whole = {"schema": 1, "kind": "floor_form", **description(samples, gpu), "forward_share": share}
    errors = recompute_errors(samples, fits, share)
    return whole | ({"recompute_errors": errors} if errors else {}) | {"fits": rows}


def _views(samples: Samples, tp: int, fit: Fit) -> dict[str, Any]:
    return view_body(samples.profile(tp), fit, (samples.profile(tp, "forward"), samples.profile(tp, "backward")))


def document_text(document: dict[str, Any], maker: str) -> str:
    """A source file, as YAML text."""
    head = f"# Layer times, max(floor, fixed + run R + token N + square S2) seconds; made by `{maker}`.\n"
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
    parser.add_argument("--tied", action="store_true", help="attention's part times tp is the same for every tp")
    options = parser.parse_args(arguments)
    try:
        profiles = read_profile(options.profile)
        document = source_document(profiles, _description(options), tied=options.tied)
        write_atomically(options.output, document_text(document, MAKER + " --tied" * options.tied))
    except BadInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{options.output}: tp {', '.join(str(profile.tp) for profile in profiles)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
