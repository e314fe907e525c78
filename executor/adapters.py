"""The tenants' LoRA matrices on this rank, and which of them a micro-batch meets.

A begins uniform in +-1/sqrt(inputs) as in PEFT, B at zero; A is drawn whole from (seed, module) and then cut, so that
every layout starts from the same adapter.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap

import torch

from executor.config import ModelConfig
from executor.data import Piece, Run
from executor.keys import generator, key_of
from executor.lora import Dropout, MaskedPiece, Slot
from executor.mesh import Place
from executor.shards import Block, adapter_blocks
from lobra.errors import BadInput
from lobra.spec import TARGET_MODULES, Tenant

Tensor = torch.Tensor


@dataclass(slots=True, eq=False)
class Matrix:
    """One of a tenant's matrices on this rank, with its optimiser state; tensors of the block's local shape."""

    block: Block
    value: Tensor  # a leaf; autograd adds this rank's gradients up in it
    mean: Tensor
    square: Tensor


@dataclass(slots=True, eq=False)
class Adapter:
    """One tenant's training state on this rank. The counters are equal on all ranks."""

    tenant: Tenant
    config: ModelConfig
    dtype: torch.dtype
    device: torch.device
    pairs: dict[tuple[int, str], tuple[Matrix, Matrix]]  # (layer, module): A and B; this stage's layers only
    updates: int = 0  # optimiser steps done: the t of the bias correction
    labels: int = 0  # label tokens since the last one
    strikes: int = 0  # non-finite steps in a row
    quarantined: bool = False
    finite: bool = True  # every loss since the last update was

    @property
    def scale(self) -> float:
        """What B A is multiplied with."""
        return self.tenant.alpha / (self.tenant.rank**0.5 if self.tenant.rslora else self.tenant.rank)

    def matrices(self, layers: Sequence[int]) -> Iterator[Matrix]:
        """In canonical order: layer, then module, then A before B."""
        for layer in layers:
            for module in targets(self.tenant):
                yield from self.pairs[layer, module]


def targets(tenant: Tenant) -> tuple[str, ...]:
    """The tenant's modules in canonical order."""
    unknown = sorted(set(tenant.target_modules) - set(TARGET_MODULES))
    if unknown:
        raise BadInput(
            f"tenant '{tenant.name}': there is no module '{unknown[0]}'; choose from {', '.join(TARGET_MODULES)}"
        )
    return tuple(module for module in TARGET_MODULES if module in tenant.target_modules)


def initial_a(tenant: Tenant, layer: int, module: str, inputs: int) -> Tensor:
    """The whole A [rank, inputs] a tenant starts from, float32."""
    bound = 1 / math.sqrt(inputs)
    drawn = torch.rand((tenant.rank, inputs), generator=generator("adapter", tenant.init_seed, layer, module))
    return drawn * (2 * bound) - bound


def create(
    tenant: Tenant, config: ModelConfig, place: Place | None, dtype: torch.dtype, device: torch.device
) -> Adapter:
    """A fresh adapter: this rank's rectangles of it, none where it has no place."""
    pairs = {}
    for layer in place.layers if place else ():
        for module in targets(tenant):
            assert place
            blocks = adapter_blocks(config, module, tenant.rank, place.shard, place.tp)
            a = initial_a(tenant, layer, module, config.module_shape(module)[1])[:, blocks[0].columns]
            values = (a.to(dtype), torch.zeros(blocks[1].local_shape, dtype=dtype))
            first, second = starmap(_matrix, zip(blocks, (value.to(device) for value in values), strict=True))
            pairs[layer, module] = (first, second)
    return Adapter(tenant, config, dtype, device, pairs)


def _matrix(block: Block, value: Tensor) -> Matrix:
    leaf = value.contiguous().clone().requires_grad_()
    return Matrix(block, leaf, torch.zeros_like(value), torch.zeros_like(value))


@dataclass(frozen=True, slots=True)
class Bank:
    """All adapters, asked by module."""

    adapters: tuple[Adapter, ...]

    def slots(self, layer: int, module: str, runs: Sequence[Run], chunk: slice, step: int) -> list[Slot]:
        """The adapters on this module for the tokens of `chunk`, which is counted from its own beginning."""
        slots = []
        for run in runs:
            adapter = self.adapters[run.tenant]
            start, end = max(run.start, chunk.start), min(run.end, chunk.stop)
            if start >= end or module not in adapter.tenant.target_modules:
                continue
            a, b = adapter.pairs[layer, module]
            pieces = run.pieces if adapter.tenant.dropout else ()
            masked = tuple(_masked(adapter.tenant, (step, layer, module), piece, chunk) for piece in pieces)
            dropout = _dropout(adapter.tenant, a.block, masked)
            slots.append(Slot(start - chunk.start, end - chunk.start, a.value, b.value, adapter.scale, dropout))
        return slots


def _dropout(tenant: Tenant, block: Block, pieces: tuple[MaskedPiece, ...]) -> Dropout | None:
    if not tenant.dropout:
        return None
    columns = range(block.columns.start, block.columns.stop)
    return Dropout(tenant.dropout, columns, block.shape[1], tuple(piece for piece in pieces if piece.length > 0))


def _masked(tenant: Tenant, where: tuple[int, int, str], piece: Piece, chunk: slice) -> MaskedPiece:
    start, end = max(piece.start, chunk.start), min(piece.end, chunk.stop)
    key = key_of("dropout", tenant.init_seed, tenant.name, piece.index, *where)
    return MaskedPiece(key, start - piece.start, end - start)
