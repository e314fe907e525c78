"""Elementwise steps of a layer with a backward of their own: fewer passes and fewer kept activations than autograd's.

Measured on one CPU thread, forward and backward: the rotation takes half of autograd's time, the gate four fifths, and
a layer keeps one activation [tokens, intermediate] less.
"""

from typing import Any

import torch
from torch.autograd import Function
from torch.nn import functional

Tensor = torch.Tensor


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions on [T, heads, d]: element i pairs with element i + d / 2, as in Hugging Face's Llama."""
    result: Tensor = _Rotation.apply(x, cosine, sine)  # type: ignore[no-untyped-call]
    return result


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """Give silu(gate) * up."""
    result: Tensor = _Gate.apply(gate, up)  # type: ignore[no-untyped-call]
    return result


class _Rotation(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _turned(x, cosine, sine, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _turned(gradients[0], cosine, sine, -1), None, None


def _turned(x: Tensor, cosine: Tensor, sine: Tensor, direction: int) -> Tensor:
    first, second = x.chunk(2, -1)
    turned = torch.empty_like(x, memory_format=torch.contiguous_format)
    left, right = turned.chunk(2, -1)
    torch.mul(first, cosine, out=left).addcmul_(second, sine, value=-direction)
    torch.mul(second, cosine, out=right).addcmul_(first, sine, value=direction)
    return turned


class _Gate(Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        return torch.ops.aten.silu_backward(gradients[0] * up, gate), functional.silu(gate).mul_(gradients[0])
