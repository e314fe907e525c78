"""What a profile plays: directives whose steps are one micro-batch again and again, alone or on all ranks at once.

A profile is a job like any other, so its times are taken by the executor's own clock on the executor's own path. For
each (tp, recompute) one deployment fills the cluster with equal replicas. A point is played alone (the first replica
computes, all others wait) and some also crowded (every replica computes the same). Rounds go over all points in turn,
so that a slow moment of the machine does not meet all repeats of one point. The first round warms up and counts bytes.

In the others the point is played COPIES times a step and the last one is timed: what the first micro-batch of a step
costs more (memory that has to be fetched again, caches that others have used) is a cost of the step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import ClusterSpec, ModelSpec, SequenceRef, Tenant

COPIES = 2  # of a micro-batch in a step that is timed


@dataclass(frozen=True, slots=True)
class Point:
    """One micro-batch to time."""

    tp: int
    recompute: int
    rows: tuple[tuple[int, ...], ...]  # lengths of the sequences of each row
    width: int
    tenants: int  # how many adapters take turns
    crowded: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Directives of a profile, and which point each of its steps plays."""

    directives: tuple[DeploymentPlan | StepPlan, ...]
    points: tuple[Point, ...]  # by step
    rounds: tuple[int, ...]  # by step; round 0 warms up and counts
    counted: tuple[int, ...]  # steps of round 0


Micro = tuple[tuple[tuple[int, ...], ...], int, int]  # rows, width, how many adapters take turns


def shapes(
    padded: Sequence[tuple[int, int]], packs: Sequence[Sequence[int]], tenants: int, *, largest: int
) -> list[Micro]:
    """Every micro-batch: padded ones (rows, length) with one adapter, the largest of each length and packs with all."""
    found = sorted({(rows, length) for rows, length in padded if 0 < rows * length <= largest}, key=lambda p: p[::-1])
    one: list[Micro] = [(((length,),) * rows, length, 1) for rows, length in found]
    most = [max((rows, length) for rows, length in found if length == each) for each in {p[1] for p in found}]
    several: list[Micro] = [
        (((length,),) * rows, length, min(tenants, rows))
        for rows, length in sorted(most, key=lambda p: p[::-1])
        if rows > 1 and tenants > 1
    ]
    packed: list[Micro] = [((tuple(pack),), sum(pack), min(tenants, len(pack))) for pack in packs]
    return [*one, *several, *(each for each in packed if each[1] <= largest)]


def points_of(
    micro: Sequence[Micro],
    tps: Sequence[int],
    recomputes: Sequence[int],
    ranks: int,
) -> list[Point]:
    """Every point; those of the smallest, a middle and the largest size are also played crowded."""
    if not micro:
        raise BadInput("grid: no micro-batch is small enough; raise grid.largest, or give smaller lengths, rows, packs")
    by_size = sorted(micro, key=lambda each: (len(each[0]) * each[1], each[2], each[1]))
    crowd = {id(by_size[place]) for place in (0, len(by_size) // 2, -1)}
    points = []
    for tp in sorted(set(tps)):
        for recompute in sorted(set(recomputes)):
            points += [Point(tp, recompute, body, width, number, crowded=False) for body, width, number in micro]
            if recompute == 0 and ranks > 1:
                chosen = [each for each in micro if id(each) in crowd]
                points += [Point(tp, recompute, body, width, number, crowded=True) for body, width, number in chosen]
    return points


def profile_plan(
    points: Sequence[Point], model: ModelSpec, cluster: ClusterSpec, tenants: tuple[Tenant, ...], repeats: int
) -> Plan:
    """The job of these points: for each (tp, recompute) a deployment, a round of warming up, the repeats."""
    if repeats < 2:
        raise BadInput(f"repeats is {repeats}; give 2 or more, or nobody knows the noise")
    directives: list[DeploymentPlan | StepPlan] = []
    played: list[Point] = []
    rounds: list[int] = []
    counted: list[int] = []
    for tp, recompute in dict.fromkeys((point.tp, point.recompute) for point in points):
        config = ReplicaConfig(tp, 1, recompute)
        plan = deployment(config, model, cluster, tenants, max(len(point.rows) * point.width for point in points))
        directives.append(plan)
        own = [point for point in points if (point.tp, point.recompute) == (tp, recompute)]
        for number in range(repeats + 1):
            for point in own:
                if number == 0 and not point.crowded:
                    counted.append(len(played))
                directives.append(_step(len(played), point, plan, COPIES if number else 1))
                played.append(point)
                rounds.append(number)
    return Plan(tuple(directives), tuple(played), tuple(rounds), tuple(counted))


def deployment(
    config: ReplicaConfig, model: ModelSpec, cluster: ClusterSpec, tenants: tuple[Tenant, ...], budget: int
) -> DeploymentPlan:
    """As many equal replicas as the cluster holds; BadInput where it holds none."""
    tp = config.tp
    if not 1 <= tp <= cluster.gpus:
        raise BadInput(
            f"grid.tp: {tp} ranks are needed, but the cluster has {cluster.gpus}; raise cluster.gpus_per_node"
        )
    starts = range(0, cluster.gpus - tp + 1, tp)
    replicas = tuple(Replica(config, tuple(range(s, s + tp)), budget) for s in starts)
    return DeploymentPlan(model, cluster, tenants, replicas)


def _step(number: int, point: Point, plan: DeploymentPlan, copies: int) -> StepPlan:
    busy = len(plan.replicas) if point.crowded else 1
    work = tuple(
        tuple(_microbatch((number * 64 + member) * COPIES + copy, point) for copy in range(copies))
        for member in range(busy)
    )
    return StepPlan(number, (*work, *(() for _ in plan.replicas[busy:])))


def _microbatch(number: int, point: Point) -> MicroBatch:
    """Sequences sorted by tenant, tenants sharing them evenly; every number has sequences of its own."""
    counts = sum(map(len, point.rows))
    refs: Iterator[tuple[int, int]] = (
        (place * point.tenants // counts, number * 1024 + place) for place in range(counts)
    )
    rows = tuple(tuple(SequenceRef(*next(refs), length, length) for length in row) for row in point.rows)
    return MicroBatch(rows, point.width)
