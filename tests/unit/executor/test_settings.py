"""Execution settings are checked when they are made."""

import pytest
import torch

from executor.settings import Settings
from lobra.errors import BadInput


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"dtype": "float16"}, r"dtype is 'float16'; choose float64, float32, bfloat16"),
        ({"attention": "flash"}, r"attention is 'flash'; choose auto, loop, mask, varlen"),
        ({"lora": "fused"}, r"lora is 'fused'; choose loop, grouped, catmask"),
        ({"quarantine_after": 0}, r"quarantine_after is 0"),
        ({"bucket_bytes": 0}, r"bucket_bytes is 0; it counts bytes, 1 or more"),
        ({"total_updates": 0}, r"total_updates is 0"),
        ({"beta1": 1.0}, r"beta1 1.0, beta2 0.999 must lie in \[0, 1\)"),
        ({"lora": "grouped", "dtype": "float64"}, r"lora 'grouped' has no float64 kernel; choose loop or catmask"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_ones(fields, text):
    with pytest.raises(BadInput, match=text):
        Settings(**fields)


def test_adapters_are_never_kept_in_less_than_float32():
    masters = [Settings(dtype=dtype).master for dtype in ("float64", "float32", "bfloat16")]

    assert masters == [torch.float64, torch.float32, torch.float32]
