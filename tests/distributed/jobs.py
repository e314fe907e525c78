"""What the pool's ranks do in the tests; every function is called on all of them."""

from dataclasses import dataclass
from typing import Any

import torch

from distributed.pool import Worker
from distributed.worlds import Job, random_state
from executor.engine import Engine
from executor.saved import counting
from executor.state import TenantState
from executor.weights import RandomWeights
from lobra.plan import DeploymentPlan

Arrays = dict[str, dict[str, Any]]  # kind, name: numpy


def engine_of(worker: Worker, job: Job) -> Engine:
    engine = Engine(job.config, job.weights(), job.tokens(), job.settings, groups=worker.groups)
    engine.deploy(job.plan)
    if not job.fresh:
        for tenant in job.plan.tenants:
            state = random_state(tenant, job.config)
            if tenant.name in job.poison:
                next(iter(state.tensors["value"].values()))[0, 0] = float("nan")
            engine.load(state)
    return engine


def arrays(state: TenantState) -> Arrays:
    return {kind: {name: each.numpy() for name, each in tensors.items()} for kind, tensors in state.tensors.items()}


def local_bits(engine: Engine) -> dict[str, bytes]:
    """This rank's rectangles, to be compared between replicas."""
    found = {}
    for adapter in engine.adapters:
        for (layer, module), pair in adapter.pairs.items():
            for letter, matrix in zip("AB", pair, strict=True):
                where = f"{adapter.tenant.name} {layer} {module} {letter} {matrix.block.rows} {matrix.block.columns}"
                found[where] = matrix.value.detach().numpy().tobytes()
    return found


def train(worker: Worker, job: Job) -> dict[str, Any]:
    """Play the job's directives; whole states and results from rank 0, local bits from all."""
    engine = engine_of(worker, job)
    results = []
    for directive in job.steps:
        if isinstance(directive, DeploymentPlan):
            engine.deploy(directive)
        else:
            results.append(engine.run_step(directive))
    states = [engine.export(adapter.tenant.name) for adapter in engine.adapters]
    answer: dict[str, Any] = {"bits": local_bits(engine), "results": results}
    if worker.rank == 0:
        answer["states"] = {state.tenant.name: arrays(state) for state in states}
        answer["counters"] = {state.tenant.name: (state.updates, state.labels, state.strikes) for state in states}
    return answer


@dataclass(frozen=True)
class ZeroHead:
    """The job's weights with a head of zeros."""

    weights: RandomWeights

    def read(self, name: str, rows: slice | None = None, columns: slice | None = None) -> torch.Tensor:
        found = self.weights.read(name, rows, columns)
        return torch.zeros_like(found) if name == "lm_head.weight" else found


def with_zero_head(worker: Worker, job: Job) -> tuple[float, ...]:
    """Mean losses of the first step under equal logits."""
    engine = Engine(job.config, ZeroHead(job.weights()), job.tokens(), job.settings, groups=worker.groups)
    engine.deploy(job.plan)
    return engine.run_step(job.steps[0]).mean_losses


def kept_bytes(worker: Worker, job: Job) -> int:
    """What backward kept on this rank at the most, in the first step; 0 where it has no place."""
    engine = engine_of(worker, job)
    with counting(engine) as kept:
        engine.run_step(job.steps[0])
    return kept.peak
