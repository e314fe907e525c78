"""What ranks tell each other beside the training: JSON bytes and flags, in a group of their own, on the CPU.

Objects are never pickled. Rank 0 speaks for the outside: it follows the feed while the others wait for its word, and
says something at least once a second, so that a long planning is no hang.
"""

import json
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from executor.failures import Kind
from lobra.codec import parse


class Control:
    """The group of all ranks for words, not for numbers."""

    def __init__(self, timeout: timedelta) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self._group = dist.new_group(backend="gloo", timeout=timeout)

    def anyone(self, flag: bool) -> bool:
        """Whether any rank says so."""
        told = torch.tensor([int(flag)])
        dist.all_reduce(told, dist.ReduceOp.MAX, group=self._group)
        return bool(told.item())

    def say(self, words: bytes | None) -> bytes:
        """Rank 0's words on every rank; the others give None."""
        size = torch.tensor([0 if words is None else len(words)])
        dist.broadcast(size, 0, group=self._group)
        page = _page(words) if words is not None else torch.empty(int(size), dtype=torch.uint8)
        if len(page):
            dist.broadcast(page, 0, group=self._group)
        return page.numpy().tobytes()

    def collect(self, words: bytes) -> list[bytes]:
        """Every rank's words on every rank, by rank."""
        sizes = torch.zeros(self.ranks, dtype=torch.int64)
        sizes[self.rank] = len(words)
        dist.all_reduce(sizes, group=self._group)
        longest = int(sizes.max())
        page = torch.zeros(longest, dtype=torch.uint8)
        page[: len(words)] = _page(words)
        pages = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.ranks)]
        dist.all_gather(pages, page, group=self._group)
        return [page[:size].numpy().tobytes() for page, size in zip(pages, sizes.tolist(), strict=True)]

    def collect_json(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Every rank's object on every rank."""
        told = self.collect(json.dumps(body, separators=(",", ":"), allow_nan=False).encode())
        return [parse(words.decode()) for words in told]


def _page(words: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(words), dtype=torch.uint8) if words else torch.empty(0, dtype=torch.uint8)


_BROKEN = ("gloo", "connection closed", "connection reset", "broken pipe", "connection refused", "nccl", "timed out")


def kind_of(error: BaseException) -> Kind:
    """Whether an exception in a rank is its own, or tells that another rank went away."""
    if isinstance(error, dist.DistError):
        return "lost peer"
    if isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _BROKEN):
        return "lost peer"
    return "raised"
