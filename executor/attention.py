"""Causal attention of a token stream: every segment attends to itself alone.

loop: one call of the fused kernel for each run of segments of one length (on the CPU 3.6 to 13 times cheaper than the
mask, measured). mask: one dense block mask, a second oracle for tests. varlen: the GPU kernel for ragged segments.
Shapes: q [tokens, heads, d], k and v [tokens, kv heads, d]. Tokens behind the last segment get zeros.
"""

import inspect
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch.nn import functional

from executor.settings import AttentionKind
from lobra.errors import BadInput

Tensor = torch.Tensor
Segment = tuple[int, int]  # start, length


def choose(kind: AttentionKind, dtype: torch.dtype, device: torch.device) -> AttentionKind:
    """The kernel that `auto` means on this device."""
    fits = device.type == "cuda" and dtype in (torch.bfloat16, torch.float16)
    if kind == "auto":
        return "varlen" if fits else "loop"
    if kind == "varlen" and not fits:
        raise BadInput(
            f"execution: attention 'varlen' needs a GPU and bfloat16, not {device.type} and {dtype}; use auto"
        )
    return kind


def attend(q: Tensor, k: Tensor, v: Tensor, segments: Sequence[Segment], kind: AttentionKind) -> Tensor:
    """[tokens, heads, d]; segments, at least one, lie one behind another from token 0."""
    end = segments[-1][0] + segments[-1][1]
    kernel = {"loop": _loop, "mask": _mask, "varlen": _varlen}[kind]
    parts = kernel(q[:end], k[:end], v[:end], segments)
    if end < q.shape[0]:
        parts.append(q.new_zeros((q.shape[0] - end, *q.shape[1:])))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _loop(q: Tensor, k: Tensor, v: Tensor, segments: Sequence[Segment]) -> list[Tensor]:
    equals = [(length, sum(1 for _ in equal)) for length, equal in groupby(segments, key=lambda segment: segment[1])]
    sizes = [length * count for length, count in equals]
    grouped = q.shape[1] != k.shape[1]
    parts = []
    # split, not slices: their gradients would each be a zero tensor of the whole stream
    for (length, count), *own in zip(equals, *(torch.split(x, sizes) for x in (q, k, v)), strict=True):
        hq, hk, hv = (x.view(count, length, *x.shape[1:]).transpose(1, 2) for x in own)
        out = functional.scaled_dot_product_attention(hq, hk, hv, is_causal=True, enable_gqa=grouped)
        parts.append(out.transpose(1, 2).reshape(count * length, *q.shape[1:]))
    return parts


def _mask(q: Tensor, k: Tensor, v: Tensor, segments: Sequence[Segment]) -> list[Tensor]:
    lengths = torch.tensor([length for _, length in segments], device=q.device)
    owner = torch.repeat_interleave(lengths)
    allowed = (owner[:, None] == owner[None, :]).tril()
    hq, hk, hv = (x.transpose(0, 1)[None] for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    out = functional.scaled_dot_product_attention(hq, hk, hv, attn_mask=allowed, enable_gqa=grouped)
    return [out[0].transpose(0, 1)]


def _varlen(q: Tensor, k: Tensor, v: Tensor, segments: Sequence[Segment]) -> list[Tensor]:
    from torch.nn.attention import varlen  # noqa: PLC0415  # 1.3 CPU seconds that no rank on a CPU need pay

    borders = [start for start, _ in segments] + [q.shape[0]]
    cumulative = torch.tensor(borders, dtype=torch.int32, device=q.device)
    longest = max(length for _, length in segments)
    known = inspect.signature(varlen.varlen_attn).parameters  # it differs between releases
    causal: dict[str, Any] = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    if q.shape[1] != k.shape[1]:
        if "enable_gqa" in known:
            causal["enable_gqa"] = True
        else:
            copies = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
    out = varlen.varlen_attn(q, k, v, cumulative, cumulative, longest, longest, **causal)
    assert isinstance(out, Tensor)  # a pair only where auxiliary results are asked for
    return [out]
