"""A tenant's training state as whole tensors, independent of any layout: for checkpoints, export and re-deployment."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from executor.adapters import Adapter, Matrix
from executor.mesh import world_size
from executor.sync import layout, summed, views
from lobra.errors import BadInput
from lobra.spec import Tenant

Tensor = torch.Tensor

KINDS = ("value", "mean", "square", "gradient")


@dataclass(frozen=True, slots=True, eq=False)
class TenantState:
    """Full tensors by kind and name: tensors["value"]["layers.3.q_proj.A"]; gradient is what waits for an update."""

    tenant: Tenant
    tensors: dict[str, dict[str, Tensor]]
    updates: int = 0
    labels: int = 0
    strikes: int = 0
    quarantined: bool = False
    finite: bool = True


def matrix_name(layer: int, module: str, letter: str) -> str:
    """Name of a matrix in a state: layers.3.q_proj.A."""
    return f"layers.{layer}.{module}.{letter}"


def collect(adapter: Adapter, *, leader: bool) -> TenantState:
    """The whole state, on every rank; all ranks must call. leader: this rank belongs to the first replica.

    Values and moments are the same in all replicas and taken from the leaders; waiting gradients are summed.
    """
    layers = range(adapter.config.layers)
    world = dist.group.WORLD if world_size() > 1 else None
    tensors = {}
    for kind in KINDS:
        buffer = summed(adapter, layers, world, _contribution(kind, leader=leader))
        names = [matrix_name(layer, module, letter) for layer, module, letter, _ in layout(adapter, layers)]
        tensors[kind] = {name: full for name, (_, full) in zip(names, views(buffer, adapter, layers), strict=True)}
    counters = (adapter.updates, adapter.labels, adapter.strikes, adapter.quarantined, adapter.finite)
    return TenantState(adapter.tenant, tensors, *counters)


def _contribution(kind: str, *, leader: bool) -> Callable[[Matrix], Tensor | None]:
    def pick(matrix: Matrix) -> Tensor | None:
        if kind == "gradient":
            return matrix.value.grad
        tensors = {"value": matrix.value.detach(), "mean": matrix.mean, "square": matrix.square}
        return tensors[kind] if leader and matrix.block.owned else None

    return pick


@torch.no_grad()
def restore(adapter: Adapter, state: TenantState, *, leader: bool) -> None:
    """Put a whole state into an adapter, on any layout; a state may leave out moments and gradient."""
    for kind, tensors in state.tensors.items():
        if kind not in KINDS:
            raise BadInput(f"state of tenant '{state.tenant.name}': there is no kind '{kind}'; use {', '.join(KINDS)}")
        _check(state.tenant.name, tensors, adapter)
        for layer, module, letter, _ in layout(adapter, range(adapter.config.layers)):
            pair = adapter.pairs.get((layer, module))
            if pair is None:
                continue
            matrix = pair["AB".index(letter)]
            full = tensors[matrix_name(layer, module, letter)]
            part = full[matrix.block.rows, matrix.block.columns].to(matrix.value)
            if kind != "gradient":
                getattr(matrix, kind).copy_(part)
            elif leader and matrix.block.owned and state.labels:
                matrix.value.grad = part.clone()
    adapter.updates, adapter.labels, adapter.strikes = state.updates, state.labels, state.strikes
    adapter.quarantined, adapter.finite = state.quarantined, state.finite


def _check(name: str, tensors: dict[str, Tensor], adapter: Adapter) -> None:
    expected = {
        matrix_name(layer, module, letter): shape
        for layer, module, letter, shape in layout(adapter, range(adapter.config.layers))
    }
    if tensors.keys() != expected.keys():
        odd = min(tensors.keys() ^ expected.keys())
        raise BadInput(f"state of tenant '{name}': '{odd}' is {'missing' if odd in expected else 'not part of it'}")
    for key, shape in expected.items():
        if tuple(tensors[key].shape) != shape:
            raise BadInput(f"state of tenant '{name}': '{key}' has shape {tuple(tensors[key].shape)}, not {shape}")
