"""A tenant's gradient is summed in canonical form: the full matrices of its layers, flat, one buffer a tenant.

Every rank that holds a layer writes what it has at its place of a zero buffer; one all-reduce over the layer's holders
then adds up replicas, tensor-parallel parts and replicated heads in a single rule, whatever each replica's cut. One
buffer a tenant, so that the bits of its sum do not depend on who else trains. A large buffer goes in buckets, which
bounds what the back end needs beside it; where they are cut follows from the tenant alone.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from executor.adapters import Adapter, Matrix, targets
from executor.mesh import Group
from executor.settings import BUCKET_BYTES

Tensor = torch.Tensor
Shape = tuple[int, int]


def layout(adapter: Adapter, layers: Sequence[int]) -> Iterator[tuple[int, str, str, Shape]]:
    """(layer, module, "A" or "B", full shape) of every matrix in canonical order."""
    for layer in layers:
        for module in targets(adapter.tenant):
            outputs, inputs = adapter.config.module_shape(module)
            yield layer, module, "A", (adapter.tenant.rank, inputs)
            yield layer, module, "B", (outputs, adapter.tenant.rank)


def views(buffer: Tensor, adapter: Adapter, layers: Sequence[int]) -> Iterator[tuple[Matrix | None, Tensor]]:
    """Each matrix with its full-shaped view of the buffer; None for one that lives on other ranks."""
    start = 0
    for layer, module, letter, shape in layout(adapter, layers):
        size = shape[0] * shape[1]
        pair = adapter.pairs.get((layer, module))
        yield pair["AB".index(letter)] if pair else None, buffer[start : start + size].view(shape)
        start += size


def summed(
    adapter: Adapter,
    layers: Sequence[int],
    group: Group | None,
    pick: Callable[[Matrix], Tensor | None],
    *,
    bucket_bytes: int = BUCKET_BYTES,
) -> Tensor:
    """The canonical buffer of these layers, summed over the group; every member must call, None stays alone."""
    elements = sum(rows * columns for *_, (rows, columns) in layout(adapter, layers))
    buffer = torch.zeros(elements, dtype=adapter.dtype, device=adapter.device)
    for matrix, full in views(buffer, adapter, layers):
        part = None if matrix is None else pick(matrix)
        if matrix is not None and part is not None:
            full[matrix.block.rows, matrix.block.columns] = part
    if group is not None:
        for bucket in torch.split(buffer, max(1, bucket_bytes // buffer.element_size())):
            dist.all_reduce(bucket, group=group)
    return buffer


def gradient(matrix: Matrix) -> Tensor | None:
    """What this rank has of a matrix's gradient; None: no token of the tenant came by."""
    return matrix.value.grad
