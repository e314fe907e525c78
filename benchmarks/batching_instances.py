"""What `bench_batching.py` buckets and packs: lengths, batches, plans, and the bounds they are judged by.

Lengths are six log-normals (medians 100 to 5,000 tokens), cut at 16,384 or at a bin's room; batches of the packing
instances are the shipped workload `lobra12` scaled up, on 7B and A100-40GB nodes with the shipped cost model. Their
plan is a mix of tp 1, 2, 4 and 8 on 64 GPUs on which the fluid leaves no replica idle, and sixteen times that.
"""

from dataclasses import dataclass

import numpy as np

from costmodel.adapters import Adapters
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from lobra.batch import Array, Batch
from lobra.plan import DeploymentPlan
from lobra.protocols import CostModel
from lobra.rates import Loads
from policies.batching.pack_prices import PackPrices
from policies.batching.packed import UNLIMITED, Packed
from policies.bounds.fluid import fluid_bound
from policies.deployment.fixed import Fixed
from policies.dispatch.balanced import Balanced
from policies.machines import Machine, kinds_of
from workloads.catalogue import named_workload

MEDIANS, SIGMAS = (100, 200, 450, 900, 2000, 5000), (0.6, 0.7, 0.8, 0.9, 0.8, 0.7)
MIX = ((8, 1, 2), (4, 1, 2), (2, 1, 4), (1, 1, 32))  # tp, pp, replicas on 64 GPUs
PIPELINED = ((8, 1, 3), (1, 8, 5))


def lognormal_batch(sequences: int, longest: int = 16384, seed: int = 1) -> Batch:
    """Sequences by tenant, then index."""
    random = np.random.default_rng(np.random.SeedSequence(seed))
    tenant = np.sort(random.integers(0, len(MEDIANS), sequences))
    scale, sigma = np.log(np.array(MEDIANS))[tenant], np.array(SIGMAS)[tenant]
    length = np.clip(np.exp(scale + sigma * random.standard_normal(sequences)), 16, longest).astype(np.int64)
    return Batch(0, tenant, np.arange(sequences), length, length)


@dataclass(frozen=True)
class Packing:
    """A batch to be packed on a plan."""

    name: str
    batch: Batch
    plan: DeploymentPlan
    cost: CostModel


def packing_instance(
    sequences: int, gpus: int, mix: tuple[tuple[int, int, int], ...] = MIX, seed: int = 0, *, runs: float = 0.0
) -> Packing:
    """`lobra12` at that size, on as many copies of the mix as the GPUs hold; an adapter run costs `runs` its price."""
    model, cluster = model_spec("llama2_7b"), cluster_spec("a100_40gb", gpus // 8, 8)
    cost = cost_model(model, cluster, adapters=Adapters(run_factor=runs))
    workload = named_workload("lobra12", seed=seed, batch_size=sequences)
    copies = gpus // sum(tp * pp * count for tp, pp, count in mix)
    text = ";".join(f"{tp},{pp}x{count * copies}" for tp, pp, count in mix)
    plan = Fixed(text, Packed(), Balanced(), batches=1).plan(workload, model, cluster, cost)
    batch = next(iter(workload.batches(1)))
    priced = f", adapter runs at {runs:g} x their price" if runs else ""
    return Packing(f"{len(batch)} sequences, {gpus} GPUs, {plan.summary()}{priced}", batch, plan, cost)


def packing_bound(instance: Packing, batching: Packed) -> float:
    """Seconds that no packing on this plan can beat: the fluid over all distinct lengths, packs full, no bubble.

    Of adapter runs every pack is charged one, its first.

    Charging sequences by dual feasible functions (Fekete and Schepers, 2001) instead of their part of a full pack was
    tried and lifts it nowhere: fluids then flow to kinds with more room.
    """
    lengths, counts = np.unique(instance.batch.length, return_counts=True)
    examples, kind = kinds_of(tuple(map(Machine, instance.plan.replicas)))
    loads = [_least(lengths, batching.prices(example.replica, instance.cost)) for example in examples]
    return fluid_bound(loads, np.bincount(kind).tolist(), counts)


def _least(lengths: Array, prices: PackPrices) -> Loads:
    least = prices.sequence_seconds(lengths) + (prices.fixed + prices.run) * lengths / prices.room
    fits = np.where(lengths <= prices.room, UNLIMITED, 0)
    return Loads(fits, np.zeros(len(lengths)), least, 0.0, 1)
