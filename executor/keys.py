"""Random numbers named by what they are for, so that no layout, order or neighbour changes them.

Tensors come from a generator seeded by their name. Dropout masks come from Philox2x32 (Salmon, Moraes, Dror and Shaw,
2011): element (position, feature) is a function of the key and its counter alone, so that any rank makes any part.
"""

import hashlib

import torch

_WORD = 0xFFFFFFFF
_MULTIPLIER = 0xD256D193  # Philox2x32
_WEYL = 0x9E3779B9
_ROUNDS = 10


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


def keep_mask(
    key: int, probability: float, positions: range, columns: range, *, features: int, device: torch.device
) -> torch.Tensor:
    """Dropout of an activation [len(positions), len(columns)]: True where an element is kept.

    positions count from the beginning of the sequence, columns lie in range(features); probability is that of a drop.
    """
    rows = torch.arange(positions.start, positions.stop, device=device, dtype=torch.int64)
    inner = torch.arange(columns.start, columns.stop, device=device, dtype=torch.int64)
    counter = rows[:, None] * features + inner
    drawn = philox(counter & _WORD, (counter >> 32) ^ (key >> 32), key & _WORD)
    return drawn >= int(probability * (_WORD + 1))
