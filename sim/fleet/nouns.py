"""What a fleet plays and what it reports: jobs, the split of GPU seconds, intervals, what became of every tenant."""

import math
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from lobra.errors import BadInput
from lobra.spec import positive

P = TypeVar("P")

Cause = Literal["change", "timer"]  # why a decision is asked for: tenants came or left, or the period is over
Phase = Literal["train", "idle", "planning", "redeployment", "failed"]


class Split(NamedTuple):
    """GPU seconds by what they were spent on; all GPUs of the cluster count, used or not."""

    useful: float = 0.0
    padding: float = 0.0
    bubble: float = 0.0  # a replica at work waits for the stages before or behind it
    idle: float = 0.0  # no tenant, no replica on the GPU, or a replica that waits for the slowest
    planning: float = 0.0
    synchronisation: float = 0.0
    redeployment: float = 0.0
    failed: float = 0.0  # steps lost with a node, restarts, and the checkpoints written against losses

    @property
    def total(self) -> float:
        """All of them."""
        return math.fsum(self)

    def plus(self, other: "Split") -> "Split":
        """Both together."""
        return Split(*(mine + its for mine, its in zip(self, other, strict=True)))

    def scaled_to(self, gpu_seconds: float) -> "Split":
        """The same shares of so many GPU seconds."""
        total = self.total
        return Split(*(value * gpu_seconds / total for value in self)) if total > 0 else Split(idle=gpu_seconds)


@dataclass(frozen=True, slots=True)
class Job:
    """A tenant as the fleet sees it."""

    name: str
    at_seconds: float
    steps: int  # its budget
    step_tokens: float  # useful tokens of its part of a step, on average
    deadline_seconds: float | None = None  # after its arrival
    priority: float = 0.0
    owner: str = ""

    def __post_init__(self) -> None:
        positive(f"job '{self.name}'", steps=self.steps, step_tokens=self.step_tokens)
        if not 0 <= self.at_seconds < math.inf:
            raise BadInput(f"job '{self.name}': at_seconds is {self.at_seconds}; it must be a finite number, 0 or more")


@dataclass(frozen=True, slots=True)
class StepTime:
    """What a step of this tenant set takes on this plan."""

    seconds: tuple[float, ...]  # of a few played batches: steps to come are drawn from them
    split: Split  # GPU seconds of a step on average; only its shares count

    def __post_init__(self) -> None:
        if not self.seconds:
            raise BadInput("step time: no batch was played; give the seconds of one at least")
        positive("step time", seconds=min(self.seconds), longest=max(self.seconds))

    @property
    def mean(self) -> float:
        """Seconds of a step on average."""
        return math.fsum(self.seconds) / len(self.seconds)


@dataclass(frozen=True, slots=True)
class Active:
    """A job that trains."""

    job: Job
    start_seconds: float
    steps: int  # done


@dataclass(frozen=True, slots=True)
class Verdict(Generic[P]):
    """Keep or re-deploy."""

    plan: P
    moved: bool  # False: nothing but budgets and tenants changed
    moving_seconds: float = 0.0  # nobody trains meanwhile
    planning_seconds: float = 0.0  # of planning that the running steps could not hide
    reason: str = ""

    def __post_init__(self) -> None:
        if not (0 <= self.moving_seconds < math.inf and 0 <= self.planning_seconds < math.inf):
            raise BadInput(
                f"verdict: moving takes {self.moving_seconds} s, planning {self.planning_seconds} s; "
                "both must be finite numbers, 0 or more"
            )


@dataclass(frozen=True, slots=True)
class Interval(Generic[P]):
    """A stretch of time in which nobody comes, leaves or moves."""

    start_seconds: float
    seconds: float
    phase: Phase
    jobs: tuple[str, ...]
    plan: P | None
    steps: int
    split: Split

    @property
    def end_seconds(self) -> float:
        """When it is over."""
        return self.start_seconds + self.seconds


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one tenant."""

    job: Job
    start_seconds: float | None = None  # of its first step; None: it was never admitted
    finish_seconds: float | None = None  # None: its budget was not used up when the fleet ended
    steps: int = 0

    @property
    def tokens(self) -> float:
        """Useful tokens trained."""
        return self.steps * self.job.step_tokens

    @property
    def wait_seconds(self) -> float | None:
        """From its arrival to its first step."""
        return None if self.start_seconds is None else self.start_seconds - self.job.at_seconds

    @property
    def completion_seconds(self) -> float | None:
        """From its arrival to its end."""
        return None if self.finish_seconds is None else self.finish_seconds - self.job.at_seconds

    @property
    def late(self) -> bool:
        """Whether it missed its deadline; one that never ended did, one without a deadline did not."""
        if self.job.deadline_seconds is None:
            return False
        return self.completion_seconds is None or self.completion_seconds > self.job.deadline_seconds


@dataclass(frozen=True, slots=True)
class Loss:
    """A node was lost while tenants trained."""

    at_seconds: float
    node: int
    jobs: tuple[str, ...]  # all of them stopped
    steps: int  # done and to be done again
    gpu_seconds: float  # paid for nothing: since the last step that was saved, until training goes on


@dataclass(frozen=True, slots=True)
class History(Generic[P]):
    """A fleet's whole life."""

    gpus: int
    records: tuple[Record, ...]  # in the order of arrival
    intervals: tuple[Interval[P], ...]  # without gaps, from 0 to the end
    verdicts: tuple[tuple[float, Verdict[P]], ...]  # when, and what was decided
    losses: tuple[Loss, ...] = ()  # of nodes, while tenants trained

    @property
    def seconds(self) -> float:
        """When the last interval ended."""
        return self.intervals[-1].end_seconds if self.intervals else 0.0

    @property
    def split(self) -> Split:
        """All GPU seconds, by what they were spent on."""
        columns = zip(*(interval.split for interval in self.intervals), strict=True)
        return Split(*(math.fsum(column) for column in columns)) if self.intervals else Split()

    @property
    def moves(self) -> int:
        """Re-deployments, the first deployment included."""
        return sum(verdict.moved for _, verdict in self.verdicts)
