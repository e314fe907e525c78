"""Mutable twins of the verbs that read what others wrote."""

from dataclasses import dataclass, field

from omegaconf import MISSING


@dataclass
class Figure:
    """`lobra figure NAME`: a figure of finished results."""

    name: str = MISSING
    run: str = MISSING
    output: str | None = None
    format: str | None = None  # png, pdf or svg; none given: png, of a study all three
    scale: str = "linear"
    group: int = 0
    step: int = 0


@dataclass
class Export:
    """`lobra export`: traces in other formats."""

    run: str = MISSING
    format: str = "chrome"
    output: str | None = None
    first: int = 0  # steps before this one are left out
    steps: int | None = None  # how many; none given: all


@dataclass
class Report:
    """`lobra report RUN...`: finished runs as one HTML file."""

    runs: list[str] = field(default_factory=list)  # directories of whatif and of compare; a section each, in this order
    run_dir: str | None = None  # where report.html goes; none given: beside the first run's summary


@dataclass
class Doctor:
    """`lobra doctor`: what is installed."""
