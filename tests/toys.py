"""Small worlds for tests: a cluster, a model, a cost model in plain arithmetic, and tenants with given lengths."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Array, Batch, Histogram
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.rates import PackRates, Provenance, Rates
from lobra.schedule import stage_sizes
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec, Tenant

FAST = Link(gigabytes_per_second=300, latency_microseconds=5)
SLOW = Link(gigabytes_per_second=25, latency_microseconds=10)
GPU = GpuSpec(name="toy", memory_gib=40, teraflops=312, memory_gigabytes_per_second=1555)
MODEL = ModelSpec("toy", layers=8, hidden=64, intermediate=128, heads=8, kv_heads=8, vocabulary=100)


def cluster(nodes: int = 2, gpus_per_node: int = 8) -> ClusterSpec:
    """A cluster of equal nodes."""
    return ClusterSpec("toy", nodes, gpus_per_node, GPU, FAST, SLOW)


def tenant(name: str = "a", batch_size: int = 8, context_limit: int = 4096, **more: object) -> Tenant:
    """A tenant with everything else at its default."""
    return Tenant(name=name, batch_size=batch_size, context_limit=context_limit, **more)  # type: ignore[arg-type]


def replicas(*shapes: tuple[int, int, int], budget: int = 1024) -> tuple[Replica, ...]:
    """Replicas (tp, pp, count) placed one after another; the budget grows with tp."""
    placed, start = [], 0
    for tp, pp, count in shapes:
        for _ in range(count):
            place = tuple(range(start, start + tp * pp))
            placed.append(Replica(ReplicaConfig(tp, pp), place, budget * tp))
            start += tp * pp
    return tuple(placed)


def plan(*shapes: tuple[int, int, int], budget: int = 1024, tenants: Sequence[Tenant] = ()) -> DeploymentPlan:
    """A plan of such replicas on the toy cluster."""
    return DeploymentPlan(MODEL, cluster(), tuple(tenants) or (tenant(),), replicas(*shapes, budget=budget))


def batch(*lengths: int, tenants: Sequence[int] | None = None, step: int = 0) -> Batch:
    """A batch of these lengths; all of tenant 0 unless told otherwise; every token carries loss."""
    owners = np.zeros(len(lengths)) if tenants is None else np.asarray(tenants)
    return Batch(step, owners, np.arange(len(lengths)), np.asarray(lengths), np.asarray(lengths))


@dataclass(frozen=True)
class ToyCost:
    """Floor form with plain numbers: a layer of a micro-batch takes max(floor, a0 + a1 N / tp + a2 S2 / tp) * 1e-3."""

    layers: int = 8
    floor: float = 0.5
    fixed: float = 0.25
    token: float = 1e-3
    square: float = 1e-7
    run: float = 0.0
    tokens_per_gpu: int = 1024
    transfer: float = 0.0
    synchronise: float = 0.0
    shapes: tuple[tuple[int, int], ...] = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (1, 4))

    def configs(self) -> tuple[ReplicaConfig, ...]:
        return tuple(ReplicaConfig(tp, pp) for tp, pp in self.shapes)

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        del tenants
        return self.tokens_per_gpu * config.tp * (2 if config.recompute else 1)

    def _per_layer(self, tp: int, shards: int) -> tuple[float, float, float, float, float]:
        share = 1e-3 / (tp**0.8 * shards)  # tp pays: 8 GPUs are 5.3 times as fast as one
        return self.floor * 1e-3, self.fixed * 1e-3, self.run * 1e-3, self.token * share, self.square * share

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        times = stage_sizes(self.layers, config.pp)[0] * (1.25 if config.recompute else 1.0)
        floor, fixed, run, token, square = (times * value for value in self._per_layer(config.tp, shards))
        widths = np.asarray(widths, dtype=np.float64)
        return Rates(
            floor=floor,
            fixed=np.full(len(widths), fixed + run),
            row=token * widths + square * widths**2,
            pack=PackRates(fixed, run, token, square),
        )

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: str) -> float:
        config = replica.config
        floor, fixed, run, token, square = self._per_layer(config.tp, shape.shards)
        layer = max(floor, fixed + run * shape.runs + token * shape.tokens + square * shape.squares)
        size = stage_sizes(self.layers, config.pp, replica.layers)[stage]
        seconds = layer * size * (1.25 if config.recompute else 1.0)
        return seconds / 3 if kind == "forward" else seconds * 2 / 3

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        del plan, replica, shape
        return self.transfer

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        del plan
        return self.synchronise

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        del config, tenants, shards
        return Provenance("derived", "toy arithmetic")


@dataclass(frozen=True)
class ToyWorkload:
    """Tenants whose lengths are drawn uniformly from short lists."""

    tenants: tuple[Tenant, ...]
    choices: tuple[tuple[int, ...], ...]
    seed: int = 0

    def lengths(self, tenant: int) -> Histogram:
        values, counts = np.unique(self.choices[tenant], return_counts=True)
        return Histogram(values, counts / counts.sum())

    def batches(self, steps: int) -> Iterator[Batch]:
        for step in range(steps):
            generator = np.random.default_rng([self.seed, step])
            owners = np.repeat(np.arange(len(self.tenants)), [tenant.batch_size for tenant in self.tenants])
            lengths = np.array([generator.choice(self.choices[owner]) for owner in owners])
            yield Batch(step, owners, np.arange(len(owners)), lengths, lengths)

    def only(self, tenants: Sequence[int]) -> "ToyWorkload":
        return replace(
            self,
            tenants=tuple(self.tenants[i] for i in tenants),
            choices=tuple(self.choices[i] for i in tenants),
        )


def workload(seed: int = 0) -> ToyWorkload:
    """Three tenants, short to long: lengths 40..160, 200..900, 300..4000."""
    return ToyWorkload(
        tenants=(tenant("short", 32, 512), tenant("middle", 16, 1024), tenant("long", 8, 4096)),
        choices=((40, 60, 80, 100, 160), (200, 300, 450, 900), (300, 700, 1500, 2500, 4000)),
        seed=seed,
    )
