"""What a real run says beside its times: losses, finished adapters, tenants that had to be given up."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments import schema
from experiments.compare import Result
from experiments.torch_backend import JOB
from experiments.walk import GroupResult
from lobra.json_file import read_object

OUTCOME = "outcome.json"  # written by the executor at the end of a job
ADAPTERS = "adapters"
FIFTH = 5


def is_real(config: schema.World) -> bool:
    """Whether real ranks play, rather than the simulator."""
    return not isinstance(config.backend, schema.Sim)


def executed(result: Result) -> Result:
    """The result of a run on real ranks: its times rest on nothing but a clock."""
    ranks = max(report.gpus for group in result.groups for report in group.reports)
    return replace(
        result,
        status="measured",
        notes=(f"step times measured by the executor on {ranks} ranks, the first step warming up",),
    )


def tell_training(summary: dict[str, Any], groups: Sequence[GroupResult], folder: Path, policy: str = "") -> list[str]:
    """Add losses and outcomes to the summary, print them; names of quarantined tenants.

    policy: whose they are, where several policies trained side by side.
    """
    losses: dict[str, list[float]] = {}
    for group in groups:
        for number, tenant in enumerate(group.plan.tenants):
            losses[tenant.name] = [report.losses[number] for report in group.reports if report.losses is not None]
    gone = [name for number in range(len(groups)) for name in quarantined(folder / str(number))]
    summary["losses"], summary["quarantined"] = losses, gone
    owner = f"{policy}: " if policy else ""
    for name, values in losses.items():
        if values:
            ending = " (quarantined: its losses or gradients were not finite)" if name in gone else ""
            sys.stdout.write(f"{owner}loss of {name}: {_course(values)}{ending}\n")
    for number in range(len(groups)):
        sys.stdout.write(f"{owner}adapters: {folder / str(number) / JOB / ADAPTERS}\n")
    return gone


def _course(losses: Sequence[float]) -> str:
    """From where to where; means of a fifth of the steps, since every step has sequences of its own."""
    span = max(1, len(losses) // FIFTH)
    means = "" if span == 1 else f", means of the first and last {span}"
    return f"{fmean(losses[:span]):.3f} -> {fmean(losses[-span:]):.3f} in {len(losses)} steps{means}"


def quarantined(group: Path) -> list[str]:
    """Tenants of a finished job that do not train any more."""
    listed = read_object(group / JOB / OUTCOME).get("quarantined", [])
    return [str(name) for name in listed] if isinstance(listed, list) else []
