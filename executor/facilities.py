"""What torch finds on this machine, as JSON: `python -m executor.facilities`. For those who must not import torch."""

import json
import sys
from typing import Any

import torch
import torch.distributed as dist

GIB = 2**30


def facilities() -> dict[str, Any]:
    """Which backends ranks can talk by, threads of a process, and each GPU with its memory in GiB."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [torch.cuda.get_device_properties(number) for number in range(count)]
    return {
        "gloo": dist.is_available() and dist.is_gloo_available(),
        "nccl": dist.is_available() and dist.is_nccl_available(),
        "threads": torch.get_num_threads(),
        "gpus": [{"name": each.name, "memory_gib": round(each.total_memory / GIB, 1)} for each in gpus],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facilities()) + "\n")
