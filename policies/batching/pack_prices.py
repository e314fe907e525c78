"""What packs cost on one replica or group, and how many tokens they compute where kernels want tiles.

A kernel that works on tiles of 128 tokens computes whole tiles. Where one tile never serves two tenants (the kernels of
LoRAFusion, arXiv 2510.00206), every tenant's run in a pack is rounded up; where it never serves two sequences, every
sequence is; else the row as a whole. A pack is never rounded beyond its room.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel

Align = Literal["row", "run", "sequence"]


@dataclass(frozen=True, slots=True)
class PackPrices:
    """Stage seconds of a pack on one replica or group: its rates, floor and number of stages, rounding of its width."""

    floor: float
    fixed: float
    run: float
    token: float
    square: float
    stages: int
    room: int  # tokens that a pack may hold
    round_to: int  # what `align` names is a multiple of this, or the room
    align: Align = "row"

    def sizes(self, lengths: Array) -> Array:
        """Tokens that sequences take in a pack, whatever else is in it; elementwise."""
        if self.align != "sequence" or self.round_to == 1:
            return lengths
        rounded: Array = np.minimum(self._whole_tiles(lengths), self.room)
        return rounded

    def widths(self, place: Array, lengths: Array, tenants: Array) -> Array:
        """Tokens computed by each pack, int64 [k], for sequences [n] in packs `place` [n]; above the room if too full.

        A sequence alone is rounded up to the room at most.
        """
        if self.align == "run" and self.round_to > 1:
            pack_of, tokens_of = _by_run(place, lengths, tenants)
            tokens = np.bincount(pack_of, weights=self._whole_tiles(tokens_of)).astype(np.int64)
            return np.where(np.bincount(place) == 1, np.minimum(tokens, self.room), tokens)
        tokens = np.bincount(place, weights=self.sizes(lengths)).astype(np.int64)
        if self.align == "row" and self.round_to > 1:
            tokens = np.where(tokens > self.room, tokens, np.minimum(self._whole_tiles(tokens), self.room))
        return tokens

    def _whole_tiles(self, tokens: Array) -> Array:
        rounded: Array = -(-tokens // self.round_to) * self.round_to
        return rounded

    def sequence_seconds(self, lengths: Array) -> Array:
        """What sequences add to the pack that takes them, its fixed part and other rounding apart; elementwise."""
        lengths = np.asarray(lengths)
        seconds: Array = (
            self.token * self.sizes(lengths).astype(np.float64) + self.square * lengths.astype(np.float64) ** 2
        )
        return seconds

    def pack_seconds(self, place: Array, lengths: Array, tenants: Array) -> tuple[Array, Array]:
        """Widths and stage seconds of packs, [k] each; a pack of one sequence attends over its whole width."""
        widths = self.widths(place, lengths, tenants)
        squares = np.bincount(place, weights=lengths.astype(np.float64) ** 2)
        if self.round_to > 1:
            squares = np.where(np.bincount(place) == 1, widths.astype(np.float64) ** 2, squares)
        seconds = self.fixed + self.token * widths + self.square * squares
        if self.run:
            seconds += self.run * _runs(place, tenants, len(widths))
        return widths, np.maximum(seconds, self.floor)


def _runs(place: Array, tenants: Array, packs: int) -> Array:
    """How many tenants each pack holds; int64 [packs]."""
    base = int(tenants.max()) + 1
    seen = np.zeros(packs * base, dtype=bool)
    seen[place * base + tenants] = True
    runs: Array = seen.reshape(packs, base).sum(axis=1)
    return runs


def _by_run(place: Array, lengths: Array, tenants: Array) -> tuple[Array, Array]:
    """The pack of every adapter run, and its tokens: sequences of a tenant lie together in a pack."""
    base = int(tenants.max(initial=0)) + 1
    pairs, which = np.unique(place * base + tenants, return_inverse=True)
    return pairs // base, np.bincount(which, weights=lengths).astype(np.int64)


def pack_prices(
    cost: CostModel, config: ReplicaConfig, shards: int, room: int, round_to: int, *, align: Align = "row"
) -> PackPrices:
    """The prices of packs; BadInput where the cost model has none."""
    rates = cost.rates(config, np.array([room]), shards)
    pack = rates.pack
    if pack is None:
        raise BadInput(
            f"batching: the cost model has no price for packs on {config}, its form is made for padded micro-batches; "
            "choose padded batching or a cost form in tokens and squares"
        )
    return PackPrices(rates.floor, pack.fixed, pack.run, pack.token, pack.square, config.pp, room, round_to, align)
