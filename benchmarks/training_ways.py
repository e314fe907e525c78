"""One training task for the executor and for others: a model of random weights, four adapters, their sequences."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from executor.config import ModelConfig
from executor.data import SyntheticTokens
from executor.engine import CPU, Engine
from executor.peft_format import export_adapter
from executor.settings import DataType, Settings
from executor.state import TenantState, matrix_name
from executor.weights import RandomWeights
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import TARGET_MODULES, ClusterSpec, GpuSpec, Link, ModelSpec, SequenceRef, Tenant

RANKS = (8, 16, 32, 8)
SEQUENCES = 6  # of each tenant
SHORTEST, LONGEST = 64, 1024
DRAW = 813  # its useful, padded and sorted padded tokens are those of the recorded trial within 0.6 %
ROOM = 16  # budget of the replica in longest sequences
AGREEMENT = {"float32": 1e-4, "bfloat16": 2e-2}  # relative difference of losses


@dataclass(frozen=True)
class World:
    """What all ways share."""

    config: ModelConfig
    plan: DeploymentPlan
    refs: tuple[SequenceRef, ...]  # of all tenants, each tenant's in order of arrival
    states: tuple[TenantState, ...]

    @property
    def useful(self) -> int:
        """Tokens that are no padding."""
        return sum(ref.length for ref in self.refs)

    def export(self, folder: Path) -> list[Path]:
        """Write the adapters in PEFT's format; their folders."""
        for state in self.states:
            export_adapter(folder / state.tenant.name, state.tenant, self.config, state.tensors["value"])
        return [folder / state.tenant.name for state in self.states]


def lengths(draw: int, longest: int) -> list[int]:
    """Log-normal between 64 and 1024, then scaled so that `longest` stands for 1024."""
    drawn = np.random.default_rng(draw).lognormal(5.2, 1.0, SEQUENCES * len(RANKS))
    return [int(length * longest / LONGEST) for length in np.clip(drawn, SHORTEST, LONGEST)]


def random_state(tenant: Tenant, config: ModelConfig, seed: int) -> TenantState:
    """An adapter that has trained for a while: B is not zero."""
    generator = torch.Generator().manual_seed(seed)
    values = {}
    for layer in range(config.layers):
        for module in TARGET_MODULES:
            outputs, inputs = config.module_shape(module)
            for letter, shape in (("A", (tenant.rank, inputs)), ("B", (outputs, tenant.rank))):
                drawn = torch.randn(shape, generator=generator)
                values[matrix_name(layer, module, letter)] = drawn * 0.1 * shape[1] ** -0.5
    return TenantState(tenant, {"value": values})


def make_world(config: ModelConfig, draw: int = DRAW, longest: int = LONGEST) -> World:
    """Four tenants on one replica."""
    tenants = tuple(Tenant(f"t{i}", SEQUENCES, LONGEST, rank=rank, alpha=2.0 * rank) for i, rank in enumerate(RANKS))
    sizes = {field: getattr(config, field) for field in ("layers", "hidden", "intermediate", "heads", "kv_heads")}
    device = GpuSpec("one", memory_gib=8, teraflops=0.1, memory_gigabytes_per_second=20)
    cluster = ClusterSpec("here", 1, 1, device, Link(10, 5), Link(10, 5))
    model = ModelSpec("bench", vocabulary=config.vocabulary, **sizes)
    plan = DeploymentPlan(model, cluster, tenants, (Replica(ReplicaConfig(1, 1), (0,), ROOM * longest),))
    refs = tuple(
        SequenceRef(number // SEQUENCES, number % SEQUENCES, length, length)
        for number, length in enumerate(lengths(draw, longest))
    )
    return World(config, plan, refs, tuple(random_state(tenant, config, i) for i, tenant in enumerate(tenants)))


def padded(refs: Iterable[SequenceRef], batch: int) -> tuple[MicroBatch, ...]:
    """Rows of one sequence in the given order."""
    ordered = list(refs)
    cut = (ordered[start : start + batch] for start in range(0, len(ordered), batch))
    return tuple(MicroBatch(tuple((ref,) for ref in sorted(part)), max(ref.length for ref in part)) for part in cut)


def packed(refs: Iterable[SequenceRef], capacity: int) -> tuple[MicroBatch, ...]:
    """Best-fit decreasing, each micro-batch one row as wide as it is full."""
    rows: list[list[SequenceRef]] = []
    for ref in sorted(refs, key=lambda ref: (-ref.length, ref)):
        fitting = [row for row in rows if sum(each.length for each in row) + ref.length <= capacity]
        if fitting:
            max(fitting, key=lambda row: sum(each.length for each in row)).append(ref)
        else:
            rows.append([ref])
    return tuple(MicroBatch((tuple(sorted(row)),), sum(ref.length for ref in row)) for row in rows)


def joint_works(world: World, capacity: int, batch: int) -> dict[str, tuple[MicroBatch, ...]]:
    """The executor's ways: work of a step by name."""
    by_length = sorted(world.refs, key=lambda ref: ref.length)
    by_arrival = sorted(world.refs, key=lambda ref: ref.index)  # tenants take turns
    return {
        "packed": packed(world.refs, capacity),
        "packed, twice as wide": packed(world.refs, 2 * capacity),
        "padded, sorted": padded(by_length, batch),
        "padded in arrival order": padded(by_arrival, batch),
        "batch 1": padded(world.refs, 1),
    }


class Ours:
    """The executor with its own copy of the adapters; keeps what share of each step was overhead."""

    def __init__(
        self,
        world: World,
        work: tuple[MicroBatch, ...],
        settings: Settings = Settings(dtype="float32"),  # noqa: B008  # frozen
        device: torch.device = CPU,
    ) -> None:
        config = world.config
        tokens = SyntheticTokens(config.vocabulary)
        self.engine = Engine(config, RandomWeights(config), tokens, settings, device=device)
        self.engine.deploy(world.plan)
        for state in world.states:
            self.engine.load(state)
        self.work = work
        self.done = 0
        self.overheads: list[float] = []

    @property
    def tokens(self) -> int:
        """Tokens that a step computes."""
        return sum(micro.shape.tokens for micro in self.work)

    def __call__(self) -> Sequence[float]:
        """One step; the summed losses of the tenants."""
        begun = time.perf_counter()
        result = self.engine.run_step(StepPlan(self.done, (self.work,)))
        whole = time.perf_counter() - begun
        self.done += 1
        counted = (span for span in result.spans if span.kind in ("forward", "backward", "synchronise"))
        self.overheads.append(1 - sum(span.end - span.start for span in counted) / whole)
        return result.loss_sums


def agree(losses: dict[str, Sequence[float]], dtype: DataType) -> None:
    """Refuse to compare ways that do not train the same thing."""
    first, *_ = losses.values()
    for name, found in losses.items():
        worst = max(abs(theirs / mine - 1) for mine, theirs in zip(first, found, strict=True))
        if worst > AGREEMENT[dtype]:
            raise SystemExit(f"'{name}' has other losses than the first way: relative difference {worst:.1e}")
