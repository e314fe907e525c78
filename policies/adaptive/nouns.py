"""What adaptive batching speaks of: samples, packs, slots, and the room that a pack has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lobra.errors import BadInput


class Sample(NamedTuple):
    """One sequence of one batch of one adapter."""

    adapter: int
    batch: int
    length: int  # tokens
    number: int  # by which the caller knows it


Pack = tuple[Sample, ...]  # a micro-batch of one replica; () where it idles
Slot = tuple[Pack, ...]  # what all replicas begin at the same place of their pipelines; all () for an empty slot
Key = tuple[int, int]  # adapter and batch


@dataclass(frozen=True, slots=True)
class Room:
    """What a pack may hold: tokens, each adapter's share rounded up to whole tiles."""

    tokens: int
    tile: int = 1

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.tile < 1:
            raise BadInput(f"adaptive batching: capacity {self.tokens} and tile {self.tile} must be at least 1 token")

    def rounded(self, tokens: int) -> int:
        """Whole tiles; a share that would then exceed the room alone is cut off there."""
        return min(-(-tokens // self.tile) * self.tile, max(self.tokens, tokens))

    def width(self, pack: Sequence[Sample]) -> int:
        """Tokens that the pack computes."""
        shares: dict[int, int] = {}
        for sample in pack:
            shares[sample.adapter] = shares.get(sample.adapter, 0) + sample.length
        return sum(map(self.rounded, shares.values()))


@dataclass(frozen=True, slots=True)
class Prices:
    """Stage seconds of packs: all that the search knows of time."""

    seconds: Callable[[Pack, int], float]  # forward plus backward of a pack of this width
    forward: float  # the share of it that is forward

    def slot(self, slot: Slot, room: Room) -> float:
        """Seconds of the slowest replica in a slot."""
        return max((self.seconds(pack, room.width(pack)) for pack in slot if pack), default=0.0)


def keys(slot: Slot) -> frozenset[Key]:
    """Who is in a slot, with which batches."""
    return frozenset((sample.adapter, sample.batch) for pack in slot for sample in pack)
