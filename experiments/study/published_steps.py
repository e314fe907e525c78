"""The published step times and throughputs, played: homogeneous replicas on sequences of equal length.

Table 9 gives step seconds of 64 sequences, Table 3 thousands of tokens a GPU and second of each configuration with
micro-batches of as many sequences as fit; how many micro-batches it used is not said, its pipelines fit about 32.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from costmodel.hardware import cluster_spec, model_spec
from experiments.study.published import published
from lobra.plan import DeploymentPlan, MicroBatch, ReplicaConfig, StepPlan
from lobra.protocols import CostModel
from lobra.spec import SequenceRef, Tenant
from policies.deployment.placement import Kind, place
from sim.simulator import Fidelity, Simulator

MICRO_BATCHES = 32  # of Table 3
TENANT = Tenant("equal", 64, 16384)


def step_seconds(
    cost: CostModel, config: ReplicaConfig, replicas: int, *, length: int, rows: int, count: int, fidelity: Fidelity
) -> float:
    """Seconds of a step in which every replica has so many micro-batches of rows of this length; 7B, 16 A100-40GB."""
    cluster = cluster_spec("a100_40gb", 2, 8)
    places = place([(Kind(config, rows * length), replicas)], cluster)
    plan = DeploymentPlan(model_spec("llama2_7b"), cluster, (TENANT,), places)
    microbatch = MicroBatch(tuple((SequenceRef(0, row, length, length),) for row in range(rows)), length)
    step = StepPlan(0, ((microbatch,) * count,) * replicas)
    simulator = Simulator(cost, fidelity=fidelity, spans=False, check=False)
    return next(iter(simulator.play((plan, step)))).seconds


def table9(cost: CostModel, fidelity: Fidelity, rows: Iterable[Sequence[Any]] | None = None) -> list[dict[str, Any]]:
    """Table 9 row by row: published seconds and ours."""
    told = []
    for tp, pp, replicas, length, count, theirs, nemo in rows or published("table9"):
        config, rows_each = ReplicaConfig(tp, pp), 64 // replicas // count
        ours = step_seconds(cost, config, replicas, length=length, rows=rows_each, count=count, fidelity=fidelity)
        told.append({"tp": tp, "pp": pp, "length": length, "published": theirs, "nemo": nemo, "ours": ours})
    return told


def table3(cost: CostModel, fidelity: Fidelity, rows: Iterable[Sequence[Any]] | None = None) -> list[dict[str, Any]]:
    """Table 3 row by row: published throughput and ours."""
    whole = published("table3")
    told = []
    for tp, pp, length, theirs in rows or whole:
        longest = max(other for t, p, other, _ in whole if (t, p) == (tp, pp))
        each = longest // length
        seconds = step_seconds(
            cost, ReplicaConfig(tp, pp), 1, length=length, rows=each, count=MICRO_BATCHES, fidelity=fidelity
        )
        ours = MICRO_BATCHES * each * length / 1000 / seconds / (tp * pp)
        told.append({"tp": tp, "pp": pp, "length": length, "published": theirs, "ours": ours})
    return told


def anchor_factors(anchor: str, cost: CostModel) -> dict[int, float]:
    """What layer times of each tp must be multiplied with to meet a table, geometric mean; {} for the profile itself.

    From configurations without pipelines, in closed form.
    """
    if anchor == "profile":
        return {}
    ratios: dict[int, list[float]] = {}
    if anchor == "table9":
        flat = [
            (tp, pp, 1, s, 64, t, n) for tp, pp, d, s, m, t, n in published(anchor) if pp == 1 for t in (t * 64 / m,)
        ]
        for row in table9(cost, "closed", flat):
            ratios.setdefault(row["tp"], []).append(row["published"] / row["ours"])
    else:
        for row in table3(cost, "closed", [row for row in published(anchor) if row[1] == 1]):
            ratios.setdefault(row["tp"], []).append(row["ours"] / row["published"])
    return {tp: math.exp(sum(map(math.log, found)) / len(found)) for tp, found in ratios.items()}
