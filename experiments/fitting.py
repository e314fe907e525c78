"""`lobra fit`: a profile's table made into coefficients that `cost=fitted cost.file=FILE` reads."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.fit import document_text, read_profile, samples_document, source_document
from costmodel.fitting import FORWARD_SHARE
from costmodel.hardware import cluster_names, cluster_spec, model_names, model_spec
from costmodel.noise import fit_noise, noise_row
from costmodel.plausible import fit_warnings, refuse_contradictions, refuse_speed
from costmodel.prior import calibrated_document, held_out_interval, told_interval
from costmodel.profile import Profile
from costmodel.samples import Samples, is_samples, read_samples
from costmodel.sources import read_source
from experiments.rundir import SCHEMA, pretty
from experiments.schema_executor import Fit
from experiments.tables import print_table
from lobra.errors import BadInput
from lobra.files import write_atomically

NAME = "fitted.yaml"


def fit(config: Fit, folder: Path) -> int:
    """Do the verb: `fitted.yaml` and `summary.json` in the folder."""
    path = Path(config.samples)
    if config.max_tokens is not None and config.max_tokens < 1:
        raise BadInput(f"max_tokens is {config.max_tokens}; it must be a number of tokens >= 1")
    document, warnings = (_from_samples if is_samples(path) else _from_table)(path, config)
    warnings += fit_warnings(document["fits"])
    write_atomically(folder / NAME, document_text(document, "lobra fit"))
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    rows = [_cells(fit) for fit in document["fits"]]
    print_table(
        ("tp", "points", "mean error", "largest", "by knots", "views apart", "sharing cores", "max tokens"),
        rows,
        sys.stdout,
    )
    for name, error in document.get("recompute_errors", {}).items():
        sys.stdout.write(f"{name}: derived price off by {error:.1%} on average\n")
    if "calibration" in document:
        known = document["calibration"]
        sys.stdout.write(f"the prior's times {known['alpha']:.4g} plus {known['beta_seconds'] * 1e3:.4g} ms a layer\n")
    if "interval" in document:
        sys.stdout.write(f"interval: {told_interval(document['interval'])}\n")
    body = {"schema": SCHEMA, "samples": str(path), "warnings": warnings, "fitted": document}
    write_atomically(folder / "summary.json", pretty(body))
    sys.stdout.write(f"wrote {folder / NAME}\n")
    return 0


def _cells(fit: dict[str, Any]) -> tuple[str, ...]:
    knots, apart, shared = (fit.get(name) for name in ("simulator", "view_difference", "contention"))
    return (
        str(fit["tp"]),
        str(fit["points"]),
        f"{fit['mean_error']:.1%}",
        f"{fit['largest_error']:.1%}",
        f"{knots['mean_error']:.1%}" if knots else "n/a",
        f"{apart['mean']:.1%}" if apart else "n/a",
        f"{shared['factor']:.2f}" if shared else "n/a",
        str(fit.get("max_tokens", "n/a")),
    )


def fitted_file(samples: Samples, folder: Path, *, gpu: str, max_tokens: int | None) -> Path:
    """The coefficients of these samples, in the folder."""
    document = samples_document(samples, gpu, max_tokens=max_tokens)
    document = with_noise(with_interval(document, [samples.profile(tp) for tp in samples.tps]), samples)
    write_atomically(folder / NAME, document_text(document, "lobra validate"))
    return folder / NAME


def _from_samples(path: Path, config: Fit) -> tuple[dict[str, Any], list[str]]:
    samples = read_samples(path)
    refuse_contradictions(path, [samples.profile(tp) for tp in samples.tps])
    gpu, profiles = config.gpu or samples.place["hardware"], [samples.profile(tp) for tp in samples.tps]
    document = samples_document(samples, gpu, max_tokens=config.max_tokens, memory_gib=config.memory_gib)
    if config.prior is not None:
        document = _of_prior(document, profiles, config.prior)
    return with_noise(with_interval(document, profiles), samples), list(samples.warnings)


def _of_prior(document: dict[str, Any], profiles: Sequence[Profile], prior: str) -> dict[str, Any]:
    """The prior's layer times as this executor takes them; what else the profile told of a tp stays."""
    described = {key: document[key] for key in document if key not in ("fits", "forward_share", "recompute_errors")}
    made, _ = calibrated_document(read_source(Path(prior), "floor_form"), profiles, described)
    extras = {
        fit["tp"]: {key: fit[key] for key in ("contention", "max_tokens") if key in fit} for fit in document["fits"]
    }
    return made | {"fits": [fit | extras.get(fit["tp"], {}) for fit in made["fits"]]}


def with_interval(document: dict[str, Any], profiles: Sequence[Profile]) -> dict[str, Any]:
    """The document with the interval of its fit, where it has none yet and there are enough points."""
    row = None if "interval" in document else held_out_interval(profiles, document)
    return document if row is None else document | {"interval": row}


def with_noise(document: dict[str, Any], samples: Samples) -> dict[str, Any]:
    """The document with what its repeats differ by, where there are enough of them."""
    try:
        return document | {"step_noise": noise_row(fit_noise(samples))}
    except BadInput:
        return document


def _from_table(path: Path, config: Fit) -> tuple[dict[str, Any], list[str]]:
    """A table of others: tp, seq_len, mbs, time, without any word of where it was measured."""
    for key in ("gpu", "model_name", "source"):
        if getattr(config, key) is None:
            raise BadInput(f"{key}: {path} does not say what was measured, and where; give {key}=TEXT")
    described = {"gpu": config.gpu, "model": config.model_name, "status": "measured", "source": config.source}
    profiles = read_profile(path)
    refuse_contradictions(path, profiles)
    gpus = {gpu.name: gpu for gpu in (cluster_spec(name, 1, 1).gpu for name in cluster_names())}
    if config.model_name in model_names() and config.gpu in gpus:
        refuse_speed(path, profiles, model_spec(config.model_name), gpus[config.gpu])
    document = source_document(profiles, described | {"forward_share": FORWARD_SHARE})
    document = with_interval(_of_prior(document, profiles, config.prior) if config.prior else document, profiles)
    if config.max_tokens is not None:
        document["fits"] = [each | {"max_tokens": config.max_tokens} for each in document["fits"]]
    return document, ["forward shares are assumed: the table has none"]
