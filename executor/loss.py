"""Token losses of the frozen head; sums only, nothing is divided before the update.

The head's gradient with respect to its input is made together with the loss, a chunk of tokens at a time, so that the
logits of a micro-batch never exist as a whole. A token without label has loss 0 and gradient 0, whatever its logits.
"""

from typing import Any

import torch
from torch.autograd import Function

from executor.data import IGNORED

Tensor = torch.Tensor
CHUNK = 1024  # tokens whose logits are held at once; a multiple of the stream's alignment


def token_losses(x: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy [tokens] of x [tokens, hidden] under head [vocabulary, hidden]."""
    result: Tensor = _TokenLosses.apply(x, head, labels)  # type: ignore[no-untyped-call]
    return result


class _TokenLosses(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, head: Tensor, labels: Tensor) -> Tensor:
        precise = torch.float64 if x.dtype == torch.float64 else torch.float32
        losses = torch.zeros(len(x), dtype=precise, device=x.device)
        gradient = torch.zeros_like(x) if ctx.needs_input_grad[0] else None
        for start in range(0, len(x), CHUNK):
            part = slice(start, start + CHUNK)
            given = labels[part] != IGNORED
            target = labels[part].where(given, 0)[:, None]
            logits = (x[part] @ head.T).to(precise).log_softmax(1)
            losses[part] = -logits.gather(1, target)[:, 0].where(given, 0)
            if gradient is not None:
                slope = logits.exp_().scatter_add_(1, target, logits.new_full(target.shape, -1))
                slope.masked_fill_(~given[:, None], 0)
                gradient[part] = slope.to(x.dtype) @ head
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * gradients[0][:, None].to(slope.dtype), None, None
