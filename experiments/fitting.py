"""`lobra fit`: a profile's table made into coefficients that `cost=fitted cost.file=FILE` reads."""

import sys
from pathlib import Path
from typing import Any

from costmodel.fit import document_text, read_profile, samples_document, source_document
from costmodel.fitting import FORWARD_SHARE
from costmodel.samples import Samples, is_samples, read_samples
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
    write_atomically(folder / NAME, document_text(document, "lobra fit"))
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    rows = [
        (
            str(each["tp"]),
            str(each["points"]),
            f"{each['mean_error']:.1%}",
            f"{each['largest_error']:.1%}",
            f"{each['contention']['factor']:.2f}" if "contention" in each else "n/a",
            str(each.get("max_tokens", "n/a")),
        )
        for each in document["fits"]
    ]
    print_table(("tp", "points", "mean error", "largest", "sharing cores", "max tokens"), rows, sys.stdout)
    for name, error in document.get("recompute_errors", {}).items():
        sys.stdout.write(f"{name}: derived price off by {error:.1%} on average\n")
    body = {"schema": SCHEMA, "samples": str(path), "warnings": warnings, "fitted": document}
    write_atomically(folder / "summary.json", pretty(body))
    sys.stdout.write(f"wrote {folder / NAME}\n")
    return 0


def fitted_file(samples: Samples, folder: Path, *, gpu: str, max_tokens: int | None) -> Path:
    """The coefficients of these samples, in the folder."""
    document = samples_document(samples, gpu, max_tokens=max_tokens)
    write_atomically(folder / NAME, document_text(document, "lobra validate"))
    return folder / NAME


def _from_samples(path: Path, config: Fit) -> tuple[dict[str, Any], list[str]]:
    samples = read_samples(path)
    gpu = config.gpu or samples.place["hardware"]
    return samples_document(samples, gpu, max_tokens=config.max_tokens, memory_gib=config.memory_gib), list(
        samples.warnings
    )


def _from_table(path: Path, config: Fit) -> tuple[dict[str, Any], list[str]]:
    """A table of others: tp, seq_len, mbs, time, without any word of where it was measured."""
    for key in ("gpu", "model", "source"):
        if getattr(config, key) is None:
            raise BadInput(f"{key}: {path} does not say what was measured, and where; give {key}=TEXT")
    described = {"gpu": config.gpu, "model": config.model, "status": "measured", "source": config.source}
    document = source_document(read_profile(path), described | {"forward_share": FORWARD_SHARE})
    if config.max_tokens is not None:
        document["fits"] = [each | {"max_tokens": config.max_tokens} for each in document["fits"]]
    return document, ["forward shares are assumed: the table has none"]
