"""The two collectives of sequence parallelism, each the other's gradient.

Between them a rank holds its own tokens only, [tokens / tp, width]; the linear layers see all tokens of the replica.
On the CPU a reduce-scatter is an all-to-all with the sum taken in the order of the shards: the ring of the library adds
in an order that depends on where in the buffer an element lies, and so on who else is in the micro-batch.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Function

from executor.mesh import Group

Tensor = torch.Tensor


def gather(x: Tensor, group: Group | None) -> Tensor:
    """[tokens / tp, width] of every rank to [tokens, width] on each; its gradient is reduce-scattered."""
    return x if group is None else _apply(_Gather, x, group)


def reduce_scatter(x: Tensor, group: Group | None) -> Tensor:
    """Partial sums [tokens, width] to sums [tokens / tp, width]; its gradient is gathered."""
    return x if group is None else _apply(_ReduceScatter, x, group)


def gather_tokens(x: Tensor, group: Group) -> Tensor:
    """All ranks' rows in the order of the shards; no gradient."""
    out = x.new_empty((x.shape[0] * group.size(), *x.shape[1:]))
    collective = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # renamed in torch 2.13
    collective(out, x.contiguous(), group=group)
    return out


def scatter_sum(x: Tensor, group: Group) -> Tensor:
    """This rank's rows of the sum over all ranks; no gradient."""
    size = group.size()
    part = x.shape[0] // size
    if x.is_cuda:
        out = x.new_empty((part, *x.shape[1:]))
        collective = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        collective(out, x.contiguous(), group=group)
        return out
    received = torch.empty_like(x, memory_format=torch.contiguous_format)
    dist.all_to_all_single(received, x.contiguous(), group=group)
    parts = received.view(size, part, *x.shape[1:])
    out = parts[0].clone()
    for other in range(1, size):
        out += parts[other]
    return out


def _apply(function: type[Function], *arguments: Any) -> Tensor:
    result: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return result


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return gather_tokens(x, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return scatter_sum(gradients[0], ctx.group), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return scatter_sum(x, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gather_tokens(gradients[0], ctx.group), None
