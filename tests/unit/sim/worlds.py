"""Tiny worlds for the simulator: work in plain tokens, a price list, and the log that comes of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lobra.plan import DeploymentPlan, MicroBatch, Replica, Shape, StepPlan
from lobra.spec import SequenceRef
from lobra.trace import Span, StepReport
from sim.simulator import Simulator
from toys import MODEL, ToyCost, cluster, plan, replicas, tenant


@dataclass(frozen=True)
class PerToken(ToyCost):
    """Every stage takes so many seconds a token, shared by the members of a group; every transfer the same."""

    forward: float = 1.0
    backward: float = 2.0

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: str) -> float:
        del replica, stage
        return (self.forward if kind == "forward" else self.backward) * shape.tokens / shape.shards


def tokens(count: int, *group: int) -> MicroBatch:
    """A micro-batch of one sequence; shared where a group is named."""
    return MicroBatch(((SequenceRef(0, 0, count, count),),), count, group)


def work(*shares: Sequence[int | MicroBatch], step: int = 0) -> StepPlan:
    """A step plan: for each replica its micro-batches, plain numbers being tokens."""
    return StepPlan(step, tuple(tuple(tokens(m) if isinstance(m, int) else m for m in share) for share in shares))


def pipelines(pp: int, count: int = 1) -> DeploymentPlan:
    """Replicas <1, pp> with room for everything."""
    return plan((1, pp, count), budget=10**6)


def deployed(*shapes: tuple[int, int, int], layers: int = 8, gpus: int = 72) -> DeploymentPlan:
    """Replicas (tp, pp, count) with room for everything, of a model with so many layers, on one node."""
    return DeploymentPlan(replace(MODEL, layers=layers), cluster(1, gpus), (tenant(),), replicas(*shapes, budget=10**6))


def report(simulator: Simulator, deployment: DeploymentPlan, *steps: StepPlan) -> StepReport:
    """The report of the last step."""
    return list(simulator.play([deployment, *steps]))[-1]


def seconds(cost: ToyCost, deployment: DeploymentPlan, step: StepPlan) -> float:
    """How long one step takes."""
    return report(Simulator(cost), deployment, step).seconds


def log(spans: Iterable[Span], *kinds: str) -> list[tuple[str, float]]:
    """Who began, and when: `1.0 F2` is the forward of micro-batch 2 on stage 0 of replica 1."""
    return [
        (f"{span.replica}.{span.stage} {span.kind[0].upper()}{span.microbatch}", span.start)
        for span in spans
        if span.kind in (kinds or ("forward", "backward"))
    ]


def overlaps(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Operations that one stage would do at the same time."""
    found, last = [], dict[tuple[int, int], Span]()
    for span in spans:
        if span.kind in ("forward", "backward"):
            place = (span.replica, span.stage)
            if place in last and span.start < last[place].end:
                found.append((last[place], span))
            last[place] = span
    return found
