"""Small jobs for tests: a model, four unequal tenants, layouts of up to eight ranks, random step plans."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from executor.config import ModelConfig, Rope
from executor.data import SyntheticTokens
from executor.settings import Settings
from executor.state import TenantState, matrix_name
from executor.weights import RandomWeights
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import TARGET_MODULES, ClusterSpec, Link, ModelSpec, SequenceRef, Tenant
from toys import GPU

torch.set_num_threads(1)  # two threads a process are 12 to 20 times slower where processes outnumber cores, measured

CONFIG = ModelConfig(
    layers=4,
    hidden=64,
    intermediate=96,
    heads=8,
    kv_heads=4,
    vocabulary=101,
    head_size=8,
    rms_epsilon=1e-5,
    rope=Rope(theta=500_000.0, kind="llama3", factor=8.0, original_context=64),
    qkv_bias=True,
)
TENANTS = (
    Tenant("a", 4, 256, rank=4, alpha=8.0, target_modules=("q_proj", "v_proj"), learning_rate=1e-3),
    Tenant("b", 4, 256, rank=16, alpha=16.0, rslora=True, learning_rate=2e-3, clip_norm=0.05),
    Tenant("c", 4, 256, rank=6, alpha=12.0, target_modules=("o_proj", "down_proj", "k_proj"), weight_decay=0.1),
    Tenant("d", 4, 256, rank=10, target_modules=("gate_proj", "up_proj", "down_proj"), schedule="cosine"),
)
Layout = tuple[tuple[int, int, tuple[int, ...] | None], ...]  # (tp, pp, first layer of each stage)
LAYOUTS: dict[str, Layout] = {
    "TP2xPP2 | TP2 | TP1 | TP1": ((2, 2, (0, 1)), (2, 1, None), (1, 1, None), (1, 1, None)),
    "TP4 | TP2xPP2": ((4, 1, None), (2, 2, (0, 3))),
    "PP3 | TP2xPP2 | TP1": ((1, 3, None), (2, 2, None), (1, 1, None)),
    "TP1 x 4, shared": ((1, 1, None),) * 4,
    "TP2xPP2 x 2, shared": ((2, 2, None),) * 2,
    "TP2xPP4": ((2, 4, None),),
    "TP8": ((8, 1, None),),
    "TP1": ((1, 1, None),),
}


EXACT = Settings(dtype="float64", total_updates=10)


@dataclass(frozen=True)
class Job:
    """Everything a rank needs to train."""

    plan: DeploymentPlan
    steps: tuple[Any, ...]  # step plans, and deployment plans in mid-stream
    config: ModelConfig = CONFIG
    settings: Settings = EXACT
    seed: int = 1
    fresh: bool = False  # begin with B = 0, as training does, instead of with random matrices
    poison: tuple[str, ...] = ()  # tenants whose first matrix holds a NaN

    def weights(self) -> RandomWeights:
        return RandomWeights(self.config, self.seed)

    def tokens(self) -> SyntheticTokens:
        return SyntheticTokens(self.config.vocabulary, self.seed)


def spec_of(config: ModelConfig) -> ModelSpec:
    sizes = {name: getattr(config, name) for name in ("layers", "hidden", "intermediate", "heads", "kv_heads")}
    return ModelSpec("toy", **sizes, vocabulary=config.vocabulary, tied_embeddings=config.tied_embeddings)


def plan_of(
    layout: Layout, tenants: Sequence[Tenant] = TENANTS, config: ModelConfig = CONFIG, recompute: int = 0
) -> DeploymentPlan:
    replicas, start = [], 0
    for tp, pp, cut in layout:
        gpus = tuple(range(start, start + tp * pp))
        replicas.append(Replica(ReplicaConfig(tp, pp, recompute), gpus, 4096, cut))
        start += tp * pp
    cluster = ClusterSpec("toy", 1, start, GPU, Link(300, 5), Link(25, 10))
    return DeploymentPlan(spec_of(config), cluster, tuple(tenants), tuple(replicas))


def random_state(tenant: Tenant, config: ModelConfig, seed: int = 5) -> TenantState:
    """An adapter with random A and B, as if it had trained for a while; the moments are left at zero."""
    name_seed = int.from_bytes(tenant.name.encode(), "little")
    generator = torch.Generator().manual_seed((seed * 1_000_003 + name_seed) % 2**62)
    values = {}
    for layer in range(config.layers):
        for module in TARGET_MODULES:
            if module not in tenant.target_modules:
                continue
            outputs, inputs = config.module_shape(module)
            shapes = {"A": (tenant.rank, inputs), "B": (outputs, tenant.rank)}
            for letter, shape in shapes.items():
                drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
                values[matrix_name(layer, module, letter)] = drawn * 0.3 * shape[1] ** -0.5
    return TenantState(tenant, {"value": values})


def sequences(tenants: int, each: int, seed: int, shortest: int = 3, longest: int = 60) -> list[SequenceRef]:
    """Sequences with some unlabelled tokens at their beginning."""
    generator = np.random.default_rng(seed)
    made = []
    for tenant in range(tenants):
        for index in range(each):
            length = int(generator.integers(shortest, longest + 1))
            made.append(SequenceRef(tenant, 100 * seed + index, length, int(generator.integers(1, length + 1))))
    return made


def microbatch(refs: Sequence[SequenceRef], *, packed: bool, group: tuple[int, ...] = ()) -> MicroBatch:
    """One micro-batch: padded rows, or two packed rows where there are enough sequences."""
    ordered = sorted(refs)
    if not packed:
        return MicroBatch(tuple((ref,) for ref in ordered), max(ref.length for ref in ordered), group)
    half = (len(ordered) + 1) // 2
    rows = [tuple(ordered[:half]), tuple(ordered[half:])] if len(ordered) > 3 else [tuple(ordered)]
    width = max(sum(ref.length for ref in row) for row in rows) + 3
    return MicroBatch(tuple(rows), width, group)


def step_of(
    plan: DeploymentPlan, refs: Sequence[SequenceRef], step: int, *, packed: bool, seed: int = 0, shared: int = 0
) -> StepPlan:
    """Deal sequences to replicas at random, in micro-batches of one to five; the first `shared` are shared by all."""
    generator = np.random.default_rng([seed, step, 7])
    order = [refs[i] for i in generator.permutation(len(refs))]
    work: list[list[MicroBatch]] = [[] for _ in plan.replicas]
    everyone = tuple(range(len(plan.replicas)))
    for _ in range(shared):
        taken, order = order[:4], order[4:]
        for mine in work:
            mine.append(microbatch(taken, packed=packed, group=everyone))
    while order:
        count = int(generator.integers(1, 6))
        taken, order = order[:count], order[count:]
        work[int(generator.integers(len(work)))].append(microbatch(taken, packed=packed))
    return StepPlan(step, tuple(tuple(mine) for mine in work))


def without_update(step: StepPlan) -> StepPlan:
    """The same work, gradients kept."""
    return replace(step, updates=())
