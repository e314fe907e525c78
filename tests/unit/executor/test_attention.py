"""The loop over segments against the dense mask, and against softmax written out."""

import math

import pytest
import torch

from executor.attention import attend, choose
from executor.context_parallel import check_heads
from lobra.errors import BadInput

SEGMENTS = ((0, 5), (5, 5), (10, 1), (11, 8))


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("kind", ["loop", "mask"])
def test_every_segment_attends_to_its_own_past(kind, kv_heads):
    torch.manual_seed(0)
    q, k, v = (torch.randn(24, heads, 8, dtype=torch.float64) for heads in (4, kv_heads, kv_heads))

    out = attend(q, k, v, SEGMENTS, kind)

    right = torch.zeros_like(out)
    for start, length in SEGMENTS:
        for i in range(start, start + length):
            for head in range(4):
                own = head // (4 // kv_heads)
                weights = (k[start : i + 1, own] @ q[i, head] / math.sqrt(8)).softmax(0)
                right[i, head] = weights @ v[start : i + 1, own]
    assert float((out - right).abs().max()) < 1e-14


def test_the_kernel_for_ragged_segments_needs_a_gpu():
    with pytest.raises(BadInput, match=r"attention 'varlen' needs a GPU and bfloat16"):
        choose("varlen", torch.bfloat16, torch.device("cpu"))


def test_auto_is_the_loop_on_the_cpu_and_varlen_on_a_gpu_in_bfloat16():
    chosen = [
        choose("auto", dtype, torch.device(where))
        for where, dtype in (("cpu", torch.float32), ("cuda", torch.float32), ("cuda", torch.bfloat16))
    ]

    assert chosen == ["loop", "loop", "varlen"]


def test_members_that_cannot_share_the_heads_are_refused_with_those_that_can():
    with pytest.raises(BadInput, match=r"a group of 3 replicas cannot share 8 heads.*use groups of 2, 4, 8"):
        check_heads(8, 4, 3)
