"""A point of a study: what is played, told by what differs from a comparison's configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure

from experiments.job import Job
from experiments.study.playing import compared

Options = Mapping[str, Any]
Work = Callable[[Job, Path, Options], dict[str, Any]]
Results = Mapping[str, Any]  # by point: what its work returned
Rows = list[dict[str, Any]]
SWEEPS = ("smoke", "paper")


@dataclass(frozen=True, slots=True)
class Point:
    """One point: a name, and how it differs from `lobra compare` without arguments.

    policies: names of `conf/policy`, or a mapping of any name to overrides of `conf/one_policy.yaml`, such as
    {"packed_8": ("policy=task_fused_packed", "policy.deployment.candidates=[[8,1]]")}.
    """

    name: str
    overrides: tuple[str, ...] = ()
    policies: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    work: Work = compared
    options: Options = field(default_factory=dict)  # plain data for the work
    replicate: int = 0  # added to the study's seed: other batches, other draws


class Study(Protocol):
    """What a module of a study offers."""

    def points(self, sweep: str) -> tuple[Point, ...]:
        """What is played."""

    def table(self, results: Results) -> Rows:
        """Its numbers, a row a line."""

    def figure(self, results: Results) -> Figure | None:
        """Its figure."""

    def notes(self, results: Results) -> tuple[str, ...]:
        """What has to be said."""
