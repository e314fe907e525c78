"""What happened: spans of work on a replica's stages, and a report for every step."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from lobra.errors import BadInput

SpanKind = Literal["forward", "backward", "transfer", "synchronise", "wait", "solve", "deploy"]


class Span(NamedTuple):
    """One piece of work of one stage; seconds since the run began. microbatch is -1 where it concerns none."""

    replica: int
    stage: int
    microbatch: int
    kind: SpanKind
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step as it was played, simulated or executed."""

    step: int
    seconds: float
    gpus: int  # GPUs billed: the whole cluster
    busy_gpu_seconds: float  # of these, spent in forward and backward
    tokens: int  # tokens computed, padding included
    useful_tokens: int
    spans: tuple[Span, ...] = ()
    wait_seconds: float = 0.0  # planning time that the step before could not hide
    peak_gib: float | None = None
    losses: tuple[float, ...] | None = None  # mean loss of each tenant; a simulator has none

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise BadInput(f"report of step {self.step}: seconds is {self.seconds}")

    @property
    def gpu_seconds(self) -> float:
        """What the step is billed: its seconds on every GPU of the cluster."""
        return self.seconds * self.gpus

    @property
    def idle_share(self) -> float:
        """Share of the billed GPU seconds in which nothing was computed."""
        return 1 - self.busy_gpu_seconds / self.gpu_seconds if self.gpu_seconds > 0 else 0.0

    @property
    def padding_share(self) -> float:
        """Share of the computed tokens that were padding."""
        return 1 - self.useful_tokens / self.tokens if self.tokens > 0 else 0.0
