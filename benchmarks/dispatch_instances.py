"""Synthetic steps for the benchmark of dispatch: seven clusters of 16 to 1,024 GPUs, full and starved batches.

Lengths: six tenants, lognormal with the medians and spreads below, clipped to 16 .. 16384 tokens, mostly short (median
of all about 250). Prices and budgets: our own roofline of Llama-2-7B on A100-40GB and of Llama-2-70B on A800-80GB.
Plans: what the tau-MILP answers for two such batches in 32 buckets, over kinds <1,1> to <8,1> of 7B, and <1,8>, <2,4>,
<4,2>, <4,4>, <8,1>, <16,1> of 70B; written down here, so that a change of the planner changes no instance.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from lobra.batch import Batch, Bucket
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig
from lobra.protocols import CostModel
from lobra.spec import Tenant
from policies.batching.boundaries import DynamicBuckets
from policies.batching.padded import Padded

MEDIANS, SPREADS = (100, 200, 450, 900, 2000, 5000), (0.6, 0.7, 0.8, 0.9, 0.8, 0.7)
SHARES = (8, 6, 4, 3, 2, 1)  # of the sequences of a step
LIMITS = (16, 16384)  # tokens
HARDWARE = {"llama2_7b": "a100_40gb", "llama2_70b": "a800_80gb"}
STEP = 16  # tokens: boundaries are multiples of it
FULL = 15.0  # sequences a replica from which a step is no longer starved

Parts = tuple[tuple[int, int, int, int], ...]  # tp, pp, budget in tokens, replicas

PLANS: dict[tuple[str, int], Parts] = {
    ("llama2_7b", 16): ((1, 1, 2048, 4), (4, 1, 8192, 1), (8, 1, 16384, 1)),
    ("llama2_7b", 64): ((1, 1, 2048, 16), (2, 1, 4096, 6), (4, 1, 8192, 3), (8, 1, 16384, 3)),
    ("llama2_7b", 256): ((1, 1, 2048, 72), (2, 1, 4096, 22), (4, 1, 8192, 15), (8, 1, 16384, 10)),
    ("llama2_7b", 1024): ((1, 1, 2048, 296), (2, 1, 4096, 84), (4, 1, 8192, 58), (8, 1, 16384, 41)),
    ("llama2_70b", 64): ((1, 8, 1152, 1), (2, 4, 2304, 1), (4, 2, 4736, 2), (8, 1, 9472, 2), (16, 1, 22144, 1)),
    ("llama2_70b", 256): (
        *((1, 8, 1152, 3), (1, 8, 576, 3), (2, 4, 2304, 3), (4, 2, 4736, 6), (4, 4, 5504, 1)),
        *((8, 1, 9472, 7), (16, 1, 22144, 4)),
    ),
    ("llama2_70b", 1024): (
        *((1, 8, 1152, 12), (1, 8, 576, 10), (2, 4, 2304, 16), (4, 2, 4736, 20), (4, 4, 5504, 3), (4, 4, 2752, 1)),
        *((8, 1, 9472, 22), (16, 1, 22144, 20)),
    ),
}

# model, GPUs, sequences a step, buckets
STEPS = (
    *(("llama2_7b", 16, 864, 16), ("llama2_7b", 64, 3456, 16), ("llama2_7b", 64, 3456, 32)),
    *(("llama2_7b", 256, 13824, 32), ("llama2_7b", 1024, 15552, 32)),
    *(("llama2_70b", 64, 519, 16), ("llama2_70b", 64, 519, 32)),
    *(("llama2_70b", 256, 2073, 32), ("llama2_70b", 1024, 8640, 32)),
    *(("llama2_7b", 16, 60, 16), ("llama2_7b", 64, 259, 16), ("llama2_70b", 64, 129, 16)),
    *(("llama2_7b", 256, 864, 16), ("llama2_70b", 256, 216, 16), ("llama2_7b", 1024, 3456, 16)),
)


@dataclass(frozen=True)
class Step:
    """One step of an instance, ready to be dispatched."""

    name: str
    gpus: int
    plan: DeploymentPlan
    buckets: tuple[Bucket, ...]
    cost: CostModel

    @property
    def load(self) -> float:
        """Sequences a replica."""
        return sum(bucket.count for bucket in self.buckets) / len(self.plan.replicas)


def steps(seed: int) -> Iterator[Step]:
    """Every instance once, with sequences drawn from this seed."""
    for model, gpus, sequences, number in STEPS:
        plan, cost = plan_of(model, gpus)
        batching = Padded(DynamicBuckets(number, STEP))
        buckets = batching.bucket(batch_of(sequences, seed), plan, cost)
        size = model.removeprefix("llama2_").upper()
        yield Step(f"{size} {gpus} GPUs {sequences} sequences J={number}", gpus, plan, buckets, cost)


def batch_of(sequences: int, seed: int) -> Batch:
    """A step's sequences, tenants in their shares."""
    ends = np.cumsum(SHARES) / sum(SHARES)
    tenant = np.searchsorted(ends, (np.arange(sequences) + 0.5) / sequences)
    length = np.empty(sequences, dtype=np.int64)
    for number, (median, spread) in enumerate(zip(MEDIANS, SPREADS, strict=True)):
        mine = tenant == number
        random = np.random.default_rng(np.random.SeedSequence((seed, sequences, number)))
        length[mine] = np.clip(np.rint(random.lognormal(np.log(median), spread, int(mine.sum()))), *LIMITS)
    return Batch(0, tenant, np.arange(sequences), length, length)


def plan_of(model: str, gpus: int) -> tuple[DeploymentPlan, CostModel]:
    """The plan for that cluster, widest replicas first, and its cost model."""
    spec, cluster = model_spec(model), cluster_spec(HARDWARE[model], gpus // 8, 8)
    replicas, start = [], 0
    for tp, pp, budget, members in sorted(PLANS[model, gpus], reverse=True):
        for _ in range(members):
            replicas.append(Replica(ReplicaConfig(tp, pp), tuple(range(start, start + tp * pp)), budget))
            start += tp * pp
    tenants = tuple(Tenant(f"tenant{number}", 1, LIMITS[1]) for number in range(len(SHARES)))
    return DeploymentPlan(spec, cluster, tenants, tuple(replicas)), cost_model(spec, cluster, form="roofline")
