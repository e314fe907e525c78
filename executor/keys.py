"""Random numbers named by what they are for, so that no layout, order or neighbour changes them.

Tensors come from a generator seeded by their name. Dropout masks come from Philox2x32 (Salmon, Moraes, Dror and Shaw,
2011): element (position, feature) is a function of the key and its counter alone, so that any rank makes any part.
"""

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray

_WORD = 0xFFFFFFFF
_MULTIPLIER = 0xD256D193  # Philox2x32
_WEYL = 0x9E3779B9
_ROUNDS = 10
_BLOCK = 16384  # elements drawn at a time on a CPU, so that three words each stay in its cache

Words = NDArray[np.uint64]


def key_of(*parts: str | int) -> int:
    """64 bits that depend on every part and on their order."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def generator(*parts: str | int) -> torch.Generator:
    """A CPU generator of its own for whatever the parts name."""
    return torch.Generator().manual_seed(key_of(*parts) >> 1)


def philox(low: torch.Tensor, high: torch.Tensor, key: int) -> torch.Tensor:
    """First word of Philox2x32-10 for counters (low, high) and a key, 32 bits each, held in int64."""
    for _ in range(_ROUNDS):
        product = low * _MULTIPLIER  # wraps beyond 63 bits; its 64 bits are right all the same
        low, high = ((product >> 32) & _WORD) ^ key ^ high, product & _WORD
        key = (key + _WEYL) & _WORD
    return low


def philox_on_cpu(low: Words, high: Words, key: int) -> Words:
    """The same in numpy, uint64, in place: several times as fast on one CPU thread; both arguments are used up."""
    product = np.empty_like(low)
    for _ in range(_ROUNDS):
        np.multiply(low, np.uint64(_MULTIPLIER), out=product)
        np.right_shift(product, np.uint64(32), out=low)
        low ^= high
        low ^= np.uint64(key)
        np.bitwise_and(product, np.uint64(_WORD), out=high)
        key = (key + _WEYL) & _WORD
    return low


def keep_mask(
    key: int, probability: float, positions: range, columns: range, *, features: int, device: torch.device
) -> torch.Tensor:
    """Dropout of an activation [len(positions), len(columns)]: True where an element is kept.

    positions count from the beginning of the sequence, columns lie in range(features); probability is that of a drop.
    """
    least = int(probability * (_WORD + 1))
    if device.type == "cpu":
        return _mask_on_cpu(key, least, positions, columns, features)
    rows = torch.arange(positions.start, positions.stop, device=device, dtype=torch.int64)
    inner = torch.arange(columns.start, columns.stop, device=device, dtype=torch.int64)
    counter = rows[:, None] * features + inner
    return philox(counter & _WORD, (counter >> 32) ^ (key >> 32), key & _WORD) >= least


def _mask_on_cpu(key: int, least: int, positions: range, columns: range, features: int) -> torch.Tensor:
    inner = np.arange(columns.start, columns.stop, dtype=np.uint64)
    kept = np.empty((len(positions), len(columns)), dtype=np.bool_)
    block = max(1, _BLOCK // max(1, len(columns)))
    for start in range(0, len(positions), block):
        part = positions[start : start + block]
        low = np.arange(part.start, part.stop, dtype=np.uint64)[:, None] * np.uint64(features) + inner
        high = low >> np.uint64(32) ^ np.uint64(key >> 32)
        low &= np.uint64(_WORD)
        np.greater_equal(philox_on_cpu(low, high, key & _WORD), np.uint64(least), out=kept[start : start + block])
    return torch.from_numpy(kept)
