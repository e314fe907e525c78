"""The bytes that backward keeps: counted tensor by tensor as autograd saves them, each storage once.

Weights and adapters do not count: they are there anyway. A recomputed layer keeps its input, which autograd's hooks do
not show and which is added, for the largest micro-batch of the step. What is counted is exact; what an allocator makes
of it, what kernels need for a moment and the one layer that is just recomputed come on top.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from executor.data import stream_tokens
from executor.engine import Engine
from lobra.plan import StepPlan

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
def counting(engine: Engine, step: StepPlan) -> Iterator[Kept]:
    """Count while the engine plays a step; the peak is complete when the block is left."""
    kept = Kept(frozenset(tensor.untyped_storage().data_ptr() for tensor in engine.weights()))
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, _tensor):
        yield kept
    kept.peak += _inputs_of_recomputed(engine, step)


def _inputs_of_recomputed(engine: Engine, step: StepPlan) -> int:
    mesh = engine.mesh
    if mesh is None or mesh.place is None:
        return 0
    place, config = mesh.place, mesh.plan.replicas[mesh.place.replica].config
    tokens = (stream_tokens(each, place.tp) // max(1, len(each.group)) for each in step.work[place.replica])
    layers = min(config.recompute, len(place.layers))
    size = engine.config.hidden * engine.settings.compute.itemsize
    return layers * max(tokens, default=0) // place.tp * size


def _tensor(saved: _Saved) -> Tensor:
    return saved.tensor
