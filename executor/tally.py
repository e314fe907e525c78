"""What all ranks must agree on at the end of a step, in one sum: losses by replica, squared norms by holder set.

Every figure is written by one rank and zero on all others, so the sum is exact; each rank then adds them up in the same
order and comes to the same decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from executor.adapters import Adapter, Matrix
from executor.mesh import Mesh, stage_ranks, world_size
from executor.model import Input
from executor.sync import gradient, summed, views
from executor.tensor_parallel import gather_tokens
from lobra.plan import StepPlan

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Tally:
    """For every tenant: the step's summed token loss, and the norm of its summed gradient (0: no update)."""

    losses: tuple[float, ...]
    norms: tuple[float, ...]


def label_tokens(step: StepPlan, tenants: int) -> list[int]:
    """Tokens with loss that the step plan gives each tenant; every rank counts them from the plan."""
    counts = [0] * tenants
    for replica, work in enumerate(step.work):
        for microbatch in work:
            if microbatch.group and microbatch.group[0] != replica:
                continue
            for row in microbatch.rows:
                for sequence in row:
                    counts[sequence.tenant] += sequence.labels
    return counts


def tenant_losses(inputs: Sequence[Input], losses: Sequence[Tensor], mesh: Mesh, tenants: int) -> Tensor:
    """Summed losses [tenants], float64, of a last stage's micro-batches.

    The tokens of a stage's ranks are put together first: a tenant's sum then has one order, wherever the cut falls.
    """
    totals = torch.zeros(tenants, dtype=torch.float64)
    if not losses:
        return totals
    mine = torch.cat([part.double() for part in losses])
    shards = mine[None] if mesh.tensor is None else gather_tokens(mine[None], mesh.tensor)
    shards = shards.cpu()
    start = 0
    for given, part in zip(inputs, losses, strict=True):
        together = shards[:, start : start + len(part)].reshape(-1)  # the replica's chunk of the stream
        start += len(part)
        for run in given.stream.runs:
            own = slice(max(0, run.start - given.chunk.start), max(0, run.end - given.chunk.start))
            totals[run.tenant] += together[own].sum()
    return totals


def sum_gradients(
    mesh: Mesh, adapters: Sequence[Adapter], due: Sequence[int], bucket_bytes: int
) -> tuple[dict[int, list[tuple[int, Tensor]]], Tensor]:
    """For each tenant that is due the canonical buffers by holder set, and the squared norms [sets, tenants] to sum."""
    buffers: dict[int, list[tuple[int, Tensor]]] = {tenant: [] for tenant in due}
    squares = torch.zeros((len(mesh.holders), len(adapters)), dtype=torch.float64)
    for number, (held, group) in enumerate(zip(mesh.holders, mesh.holder_groups, strict=True)):
        if mesh.rank not in held.ranks:
            continue
        for tenant in due:
            buffer = summed(adapters[tenant], held.layers, group, gradient, bucket_bytes=bucket_bytes)
            buffers[tenant].append((number, buffer))
            if mesh.rank == held.ranks[0]:
                squares[number, tenant] = buffer.double().square().sum().cpu()
    return buffers, squares


def agree(mesh: Mesh, losses: Tensor | None, squares: Tensor, device: torch.device) -> Tally:
    """The one sum over all ranks of the job."""
    replicas, tenants = len(mesh.plan.replicas), squares.shape[1]
    table = torch.zeros((replicas + len(squares), tenants), dtype=torch.float64)
    place = mesh.place
    if place is not None and losses is not None:
        last = stage_ranks(mesh.plan.replicas[place.replica], place.pp - 1)
        if mesh.rank == last[0]:
            table[place.replica] = losses
    table[replicas:] = squares
    if world_size() > 1:
        table = table.to(device)
        dist.all_reduce(table)
        table = table.cpu()
    totals, norms = torch.zeros(tenants, dtype=torch.float64), torch.zeros(tenants, dtype=torch.float64)
    for row in table[:replicas]:
        totals += row
    for row in table[replicas:]:
        norms += row
    return Tally(tuple(totals.tolist()), tuple(norms.sqrt().tolist()))


def gradients_of(mesh: Mesh, adapter: Adapter, buffers: list[tuple[int, Tensor]]) -> list[tuple[Matrix, Tensor]]:
    """This rank's rectangles of the canonical buffers, with their matrices."""
    found = []
    for number, buffer in buffers:
        for matrix, full in views(buffer, adapter, mesh.holders[number].layers):
            if matrix is not None:
                found.append((matrix, full[matrix.block.rows, matrix.block.columns]))
    return found
