"""Groups of several sizes in one step: how long their dispatch takes, on steps of `lobra6` and equal small replicas.

Llama-2-7B on A100-40GB by our roofline, one replica a GPU, rows packed. The gap is to the fluid in which every sequence
is computed by as many replicas as suit it (`policies.bounds.sharing`): no dispatch with such groups beats it, and about
2 % of it are packs that cannot be full.
"""

import statistics
import time
from collections.abc import Iterator

import numpy as np

from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from lobra.batch import Batch
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig
from policies.batching.packed import Packed
from policies.bounds.sharing import sharing_bound
from policies.dispatch.balanced import Balanced
from policies.dispatch.block_dealing import sharing_of
from policies.dispatch.blocks import slots_of
from policies.dispatch.flexible import FlexibleGroups, assignment_seconds
from workloads.catalogue import named_workload

BUDGET = 2048  # tokens of a replica
SIZES = ((16, 3, 60.0), (512, 1, 600.0))  # GPUs, steps measured, bar in CPU ms
EVERY = 16  # GPUs for which one step of the workload is meant; larger clusters get as many steps at once
DISPATCH = FlexibleGroups(64, Balanced(work=160, repair=32))  # as conf/policy/dispatch/flexible.yaml has it


def flexible(repeats: int) -> int:
    """Print a line for every size; how many bars were missed."""
    return sum(_report(gpus, draws, bar, repeats) for gpus, draws, bar in SIZES)


def _report(gpus: int, draws: int, bar: float, repeats: int) -> int:
    model, cluster, packed = model_spec("llama2_7b"), cluster_spec("a100_40gb", gpus // 8, 8), Packed()
    tenants = named_workload("lobra6", seed=0).tenants
    replicas = tuple(Replica(ReplicaConfig(1, 1), (gpu,), BUDGET) for gpu in range(gpus))
    plan, cost = DeploymentPlan(model, cluster, tenants, replicas), cost_model(model, cluster, form="roofline")
    milliseconds, seconds, gaps, count = [], [], [], 0
    for batch in _batches(gpus // EVERY, draws):
        buckets, count = packed.bucket(batch, plan, cost), len(batch)
        for _ in range(repeats):
            start = time.process_time()
            assignment = DISPATCH.assign(buckets, plan, packed, cost)
            milliseconds.append((time.process_time() - start) * 1e3)
        seconds.append(assignment_seconds(assignment, plan, packed, cost))
        sharing = sharing_of(buckets, slots_of(plan, DISPATCH.largest), packed, cost)
        gaps.append(seconds[-1] / sharing_bound(sharing.sizes, sharing.replicas, sharing.counts) - 1)
    median = statistics.median(milliseconds)
    missed = median > bar
    print(
        f"groups of several sizes, {gpus} GPUs {count} sequences: {median:6.1f} ms, step {np.mean(seconds):.4f} s, "
        f"{np.mean(gaps):.2%} above the fluid with groups{f' MISSED {bar:g} ms' if missed else ''}",
        flush=True,
    )
    return int(missed)


def _batches(together: int, draws: int) -> Iterator[Batch]:
    """Steps of the workload, so many of its own steps in each."""
    steps = list(named_workload("lobra6", seed=0).batches(together * draws))
    for start in range(0, len(steps), together):
        parts = steps[start : start + together]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("tenant", "length")}
        number = np.arange(len(columns["length"]))
        yield Batch(0, columns["tenant"], number, columns["length"], columns["length"])
