"""Failures in closed form: how often, how much is lost, and how often to checkpoint.

Failures of a node are a Poisson process; a job on n nodes fails n times as often. Work since the last checkpoint is
lost, and a restart takes its time. The interval of least loss is Young's square root (Young, 1974), or Daly's higher
order form (Daly, 2006, equation 37), which also holds where a checkpoint is no longer small against the mean time.
"""

import math
from dataclasses import dataclass

from lobra.errors import BadInput
from lobra.spec import positive


@dataclass(frozen=True, slots=True)
class Breaking:
    """How a cluster breaks and how it recovers; all in seconds."""

    node_mean_seconds: float  # between failures of one node
    nodes: int  # that a failure of any of stops the job
    checkpoint_seconds: float
    restart_seconds: float = 0.0

    def __post_init__(self) -> None:
        positive("failures", node_mean_seconds=self.node_mean_seconds, nodes=self.nodes)
        positive("failures", checkpoint_seconds=self.checkpoint_seconds)
        if not 0 <= self.restart_seconds < math.inf:
            raise BadInput(f"failures: restart_seconds is {self.restart_seconds}; it must be 0 or more")

    @property
    def mean_seconds(self) -> float:
        """Between failures of the job."""
        return self.node_mean_seconds / self.nodes


def young_seconds(breaking: Breaking) -> float:
    """Seconds of work between checkpoints, first order: sqrt(2 checkpoint mean)."""
    return math.sqrt(2 * breaking.checkpoint_seconds * breaking.mean_seconds)


def daly_seconds(breaking: Breaking) -> float:
    """The higher order form; the mean time between failures where a checkpoint takes twice as long or more."""
    ratio = breaking.checkpoint_seconds / (2 * breaking.mean_seconds)
    if ratio >= 1:
        return breaking.mean_seconds
    return young_seconds(breaking) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - breaking.checkpoint_seconds


def expected_seconds(breaking: Breaking, work_seconds: float, interval_seconds: float) -> float:
    """Expected wall seconds of so much work with a checkpoint after each interval of it.

    Exact for Poisson failures that may also strike checkpoints and restarts (Daly, 2006, equation 20):
    M e^(R/M) (e^((t + C)/M) - 1) W / t.
    """
    positive("failures", interval_seconds=interval_seconds)
    mean = breaking.mean_seconds
    try:
        factor = math.exp(breaking.restart_seconds / mean) * math.expm1(
            (interval_seconds + breaking.checkpoint_seconds) / mean
        )
    except OverflowError:
        return math.inf
    return mean * factor * work_seconds / interval_seconds


@dataclass(frozen=True, slots=True)
class Blast:
    """What one failure takes, on average."""

    tenants: int  # stopped
    gpu_seconds: float  # of paid work lost, restart included


def blast(breaking: Breaking, tenants: int, gpus: int, interval_seconds: float) -> Blast:
    """Half an interval and a restart on all GPUs of the job that fails."""
    return Blast(tenants, gpus * (interval_seconds / 2 + breaking.restart_seconds))


def blast_separate(breaking: Breaking, tenants: int, gpus: int, interval_seconds: float) -> Blast:
    """The same tenants as jobs of equal parts of the nodes: one node takes the jobs that have GPUs on it."""
    per_node, each = gpus / breaking.nodes, gpus / tenants
    hit = min(tenants, max(1, math.ceil(per_node / each)))
    return Blast(hit, min(gpus, hit * each) * (interval_seconds / 2 + breaking.restart_seconds))
