"""What failures take from a fleet: tenants stopped and paid work lost at each loss of a node, together or apart.

Joint training stops everybody at every loss; tenants on GPUs of their own lose a node only where they are on it. Both
are played against the same losses of the same nodes, so the difference is that of the deployments alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.capacity.breaking import Breaking, daly_seconds
from lobra.errors import BadInput
from lobra.spec import ClusterSpec
from sim.fleet.asking import all_at_once
from sim.fleet.fleet import Fleet
from sim.fleet.losses import Fragile, NodeLosses
from sim.fleet.nouns import Cause, History, Job, Loss, StepTime, Verdict

SHIPPED_GPU_HOURS = 50_677  # between failures: 419 in 54 days of 16,384 GPUs (Llama 3, 2024)


@dataclass(frozen=True, slots=True)
class Terms:
    """How nodes are lost and how training goes on; seconds."""

    node_mean_seconds: float  # between losses of one node
    checkpoint_seconds: float
    restart_seconds: float
    notice_seconds: float = 0.0
    interval_seconds: float | None = None  # of training between checkpoints; None: Daly's

    def breaking(self, nodes: int) -> Breaking:
        """Of a job on so many nodes."""
        return Breaking(self.node_mean_seconds, nodes, self.checkpoint_seconds, self.restart_seconds)

    def interval(self, nodes: int) -> float:
        """Given, or of least loss for a job on so many nodes."""
        return daly_seconds(self.breaking(nodes)) if self.interval_seconds is None else self.interval_seconds

    def fragile(self, nodes: Sequence[int], seed: int) -> Fragile:
        """For a job on these nodes."""
        losses = NodeLosses(self.node_mean_seconds, tuple(nodes), seed, self.notice_seconds)
        return Fragile(losses, self.checkpoint_seconds, self.interval(len(nodes)), self.restart_seconds)


def node_mean_seconds(gpu_hours: float, gpus_per_node: int) -> float:
    """Between failures of a node, from the GPU hours between two failures of a GPU."""
    return gpu_hours * 3600 / gpus_per_node


def nodes_of(cluster: ClusterSpec) -> tuple[int, ...]:
    """All of a cluster's."""
    return tuple(range(-(-cluster.gpus // cluster.gpus_per_node)))


@dataclass(frozen=True, slots=True)
class Radius:
    """What one loss of a node takes on average, and all together."""

    losses: int  # of nodes, that somebody felt
    tenants: float  # stopped at a loss
    gpu_seconds: float  # paid for nothing at a loss
    total_gpu_seconds: float


def radius(losses: Iterable[Loss]) -> Radius | None:
    """Of losses of one fleet or of many side by side: those of one node at one moment are one; None where none was."""
    found = list(losses)
    if not found:
        return None
    moments = {(each.at_seconds, each.node) for each in found}
    total = math.fsum(each.gpu_seconds for each in found)
    return Radius(len(moments), sum(len(each.jobs) for each in found) / len(moments), total / len(moments), total)


def apart(
    jobs: Sequence[Job],
    gpus: int,
    gpus_per_node: int,
    step_time: Callable[[str, int], StepTime],
    *,
    terms: Terms,
    seed: int,
) -> Mapping[str, History[str]]:
    """Every tenant on GPUs of its own, as many for each, one beside the other; what is left over idles."""
    each = gpus // len(jobs) if jobs else 0
    if not each:
        raise BadInput(f"apart: {len(jobs)} tenants on {gpus} GPUs; each needs one of its own")
    played = {}
    for number, job in enumerate(jobs):
        nodes = range(number * each // gpus_per_node, ((number + 1) * each - 1) // gpus_per_node + 1)
        fragile = terms.fragile(nodes, seed)
        played[job.name] = _alone(each, step_time(job.name, each), fragile, seed).play((job,))
    return played


def _alone(gpus: int, time: StepTime, fragile: Fragile, seed: int) -> Fleet[str]:
    def takes(names: tuple[str, ...], plan: str) -> StepTime:
        del names, plan
        return time

    def stay(now: float, running: str | None, names: tuple[str, ...], cause: Cause) -> Verdict[str]:
        del now, running, names, cause
        return Verdict("its own", moved=False)

    return Fleet(gpus, takes, all_at_once, stay, seed=seed, fragile=fragile)
