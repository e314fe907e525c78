"""The released planner's instances: its inputs, its dispatch, and its formula, by which both dispatches are judged.

Every instance holds lengths, buckets, a plan, cost coefficients, and the dispatch that the released planner found for
them. The formula below is written from its description alone: it is first checked to reproduce the released objective
from the released counts (whose planner gives every member of a group ceil(d / p) sequences), then applied to ours with
true counts per replica.
"""

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from lobra.batch import Array, Batch, Bucket
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig
from lobra.protocols import CostModel
from lobra.rates import Assignment, Rates
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec, Tenant
from policies.batching.padded import Padded
from policies.bounds.fluid import fluid_bound
from policies.bounds.latency import latency_bound
from policies.dispatch.balanced import Balanced
from policies.dispatch.fleet import bucket_counts, fleet_of
from policies.machines import Machine

TOLERANCE = 1e-3
FOLDER, PATTERN = "peer_lobra", "disp_*.json"


@dataclass(frozen=True)
class PaperForm:
    """What batching asks of a cost model, in the six coefficients a tp of the instance."""

    coefficients: Mapping[str, Sequence[float]]
    layers: int

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of padded micro-batches; the form knows no context parallelism."""
        assert shards == 1
        c1, c2, c3, c4, c5, c6 = self.coefficients[str(config.tp)]
        s, scale = np.asarray(widths, dtype=np.float64), self.layers / config.pp / 1e3
        return Rates(0.0, (c2 * s**2 + c4 * s + c6) * scale, (c1 * s**2 + c3 * s + c5) * scale, None)


def released_seconds(instance: Mapping[str, Any], tp: int, pp: int, budget: int, counts: Mapping[int, int]) -> float:
    """The released formula: full micro-batches and one remainder a bucket; the longest present pays the bubble."""
    c1, c2, c3, c4, c5, c6 = instance["cost"]["popt"][str(tp)]
    total = longest = 0.0
    for s, count in counts.items():
        full, rest = divmod(count, budget // s)
        for size, number in ((budget // s, full), (rest, min(rest, 1))):
            if number:
                layer = (c1 * size + c2) * s * s + (c3 * size + c4) * s + (c5 * size + c6)
                stage = layer * instance["cost"]["layers"] / pp / 1e3
                total += number * stage
                longest = max(longest, stage)
    return total + (pp - 1) * longest


def released_objective(instance: Mapping[str, Any]) -> float:
    """The released dispatch, judged by that formula."""
    kinds = instance["plan_tp_pp_dp_maxtokens"]
    if instance["split"]:
        kinds = [(tp, pp, 1, budget) for tp, pp, members, budget in kinds for _ in range(members)]
    slowest = 0.0
    for number, (tp, pp, members, budget) in enumerate(kinds):
        dealt: dict[int, int] = {}
        for scheme in instance["dispatch_task_scheme"].values():
            for width, count in scheme[number].items():
                dealt[int(width)] = dealt.get(int(width), 0) + count
        each = {width: -(-count // members) for width, count in dealt.items() if count}
        slowest = max(slowest, released_seconds(instance, tp, pp, budget, each))
    return slowest


def our_objective(instance: Mapping[str, Any], plan: DeploymentPlan, assignment: Assignment) -> float:
    """Our dispatch, judged by that formula with the true count of every replica."""
    return max(
        released_seconds(
            instance, replica.config.tp, replica.config.pp, replica.budget, {part.width: part.count for part in share}
        )
        for replica, share in zip(plan.replicas, assignment.shares, strict=True)
    )


def buckets_of(instance: Mapping[str, Any]) -> tuple[Bucket, ...]:
    """The instance's sequences in the instance's buckets, sorted by task, then index."""
    edges = np.array(instance["buckets"])
    columns = [
        (task, index, length)
        for task, name in enumerate(instance["tasks"])
        for index, length in enumerate(instance["lengths"][name])
    ]
    tenant, index, length = np.array(columns).T
    place = np.searchsorted(edges, length)
    batch = Batch(0, tenant, index, length, length)
    buckets = tuple(Bucket(int(edge), batch.take(np.flatnonzero(place == j))) for j, edge in enumerate(edges))
    counts = {str(bucket.width): bucket.count for bucket in buckets if bucket.count}
    assert counts == {width: count for width, count in instance["bucket_counts"].items() if count}
    return tuple(bucket for bucket in buckets if bucket.count)


def plan_of(instance: Mapping[str, Any]) -> DeploymentPlan:
    """The instance's plan on a cluster of nodes with 8 GPUs, the widest replicas first."""
    replicas, start = [], 0
    for tp, pp, members, budget in sorted(instance["plan_tp_pp_dp_maxtokens"], reverse=True):
        for _ in range(members):
            replicas.append(Replica(ReplicaConfig(tp, pp), tuple(range(start, start + tp * pp)), budget))
            start += tp * pp
    link, gpu = Link(100, 5), GpuSpec("gpu", 80, 312, 2000)
    model = ModelSpec(instance["cost"]["model"], instance["cost"]["layers"], 1, 1, 1, 1, 1)
    tenants = tuple(Tenant(f"task{number}", 1, 16384) for number in range(len(instance["tasks"])))
    return DeploymentPlan(model, ClusterSpec("nodes", -(-start // 8), 8, gpu, link, link), tenants, tuple(replicas))


def run(path: Path, dispatch: Balanced, repeats: int) -> tuple[float, float]:
    """Print the line of one instance; its ratio and milliseconds."""
    instance = json.loads(path.read_text())
    plan, buckets = plan_of(instance), buckets_of(instance)
    cost, batching = cast("CostModel", PaperForm(instance["cost"]["popt"], instance["cost"]["layers"])), Padded()
    released = instance["objective_s"]
    if abs(released_objective(instance) / released - 1) > TOLERANCE * 2:  # as its description promises
        raise SystemExit(f"{path.name}: the formula gives {released_objective(instance)}, not the released {released}")
    objectives, seconds = [], []
    for _ in range(repeats):
        start = time.process_time()
        assignment = dispatch.assign(buckets, plan, batching, cost)
        seconds.append(time.process_time() - start)
        objectives.append(our_objective(instance, plan, assignment))
    assert len(set(objectives)) == 1, "the same input gave different dispatches"
    fleet, counts = fleet_of(buckets, tuple(map(Machine, plan.replicas)), batching, cost), bucket_counts(buckets)
    bound = max(
        fluid_bound(fleet.loads, fleet.sizes.tolist(), counts), latency_bound(fleet.loads, fleet.sizes.tolist(), counts)
    )
    ours, milliseconds = objectives[0], statistics.median(seconds) * 1e3
    name = path.stem.removeprefix("disp_").removesuffix("_s0")
    print(
        f"{name:32s} ours {ours:9.5f} s  released {released:9.5f} s  ratio {ours / released:.4f}  "
        f"{milliseconds:6.1f} ms  bound gap {ours / bound - 1:7.2%}",
        flush=True,
    )
    return ours / released, milliseconds
