"""Ulysses context parallelism (Jacobs et al. 2023): tokens are split between equal replicas, heads inside attention.

An all-to-all turns [tokens / size, heads, d] into [tokens, heads / size, d]; the same back. Key-value heads fewer than
members are repeated first, and autograd adds their gradients up.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Function

from executor.mesh import Context
from lobra.errors import BadInput

Tensor = torch.Tensor


def check_heads(heads: int, kv_heads: int, members: int) -> None:
    """Refuse a group whose members cannot share the heads of one rank."""
    if heads % members or (kv_heads % members and members % kv_heads):
        allowed = [n for n in range(1, heads + 1) if heads % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)]
        raise BadInput(
            f"a group of {members} replicas cannot share {heads} heads and {kv_heads} kv_heads of a rank; "
            f"use groups of {', '.join(map(str, allowed[1:])) or 'none'}"
        )


def split_heads(q: Tensor, k: Tensor, v: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
    """From this member's tokens and all heads to all tokens and this member's heads; inputs [tokens, heads, d]."""
    size = context.size
    if k.shape[1] % size:
        copies = size // k.shape[1]
        k, v = k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
    widths = [part.shape[1] // size for part in (q, k, v)]
    tokens, depth = q.shape[0], q.shape[2]
    shares = [part.view(tokens, size, width, depth) for part, width in zip((q, k, v), widths, strict=True)]
    sent = torch.cat(shares, 2).transpose(0, 1).contiguous()  # [size, tokens, heads of one member, d]
    received = _exchange(sent, context).view(size * tokens, sum(widths), depth)
    q, k, v = torch.split(received, widths, 1)
    return q, k, v


def join_heads(x: Tensor, context: Context) -> Tensor:
    """Back: [tokens, heads / size, d] to [tokens / size, heads, d]."""
    size = context.size
    tokens, heads, depth = x.shape[0] // size, x.shape[1], x.shape[2]
    received = _exchange(x.reshape(size, tokens, heads, depth), context)
    return received.transpose(0, 1).reshape(tokens, size * heads, depth)


def _exchange(x: Tensor, context: Context) -> Tensor:
    result: Tensor = _Exchange.apply(x, context)  # type: ignore[no-untyped-call]
    return result


def _all_to_all(x: Tensor, context: Context) -> Tensor:
    """Chunk i goes to member i; chunk i of the result came from member i."""
    order = torch.tensor(context.position, device=x.device)
    sent = torch.empty_like(x, memory_format=torch.contiguous_format)
    sent[order] = x
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=context.group)
    return received[order]


class _Exchange(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, context: Context) -> Tensor:
        ctx.context = context
        return _all_to_all(x, context)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _all_to_all(gradients[0], ctx.context), None
