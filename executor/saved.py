"""The bytes that backward keeps: counted tensor by tensor as autograd saves them, each storage once.

Weights and adapters do not count: they are there anyway. A recomputed layer keeps its input, which checkpointing saves
through the same hooks. What is counted is exact; what an allocator makes of it, what kernels need for a moment and the
one layer that is just recomputed come on top.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from executor.engine import Engine

Tensor = torch.Tensor


@dataclass(slots=True, weakref_slot=True)
class _Saved:
    tensor: Tensor


@dataclass(slots=True)
class Kept:
    """What is kept now, and the most that ever was, in bytes."""

    ignored: frozenset[int]  # addresses of weights
    now: int = 0
    peak: int = 0
    _holders: Counter[int] = field(default_factory=Counter)  # saved tensors by the address of their storage

    def pack(self, tensor: Tensor) -> _Saved:
        """Autograd saves a tensor."""
        saved, storage = _Saved(tensor), tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address in self.ignored or not size:
            return saved
        self._holders[address] += 1
        if self._holders[address] == 1:
            self.now += size
            self.peak = max(self.peak, self.now)
        weakref.finalize(saved, self._release, address, size)
        return saved

    def _release(self, address: int, size: int) -> None:
        self._holders[address] -= 1
        if not self._holders[address]:
            self.now -= size


@contextmanager
def counting(engine: Engine) -> Iterator[Kept]:
    """Count while the engine plays a step."""
    kept = Kept(frozenset(tensor.untyped_storage().data_ptr() for tensor in engine.weights()))
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, _tensor):
        yield kept


def _tensor(saved: _Saved) -> Tensor:
    return saved.tensor
