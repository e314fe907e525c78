"""A flow: slots in order, with the empty ones between them, and what it takes in time."""

from collections.abc import Sequence
from dataclasses import dataclass

from policies.adaptive.nouns import Key, Prices, Room, Slot, keys
from policies.adaptive.pipeline import makespan
from policies.adaptive.rule import Places, gaps


@dataclass(frozen=True, slots=True)
class Entry:
    """A slot with what is asked of it again and again."""

    slot: Slot
    present: frozenset[Key]
    seconds: float


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges flows that go on from a place in a running pipeline."""

    room: Room
    prices: Prices
    places: Places

    def entry(self, slot: Slot) -> Entry:
        """The slot, priced."""
        return Entry(slot, keys(slot), self.prices.slot(slot, self.room))

    def fits(self, slot: Slot) -> bool:
        """No pack exceeds the room, and no adapter is there with two batches."""
        return all(self.room.width(pack) <= self.room.tokens for pack in slot) and len(
            {adapter for adapter, _ in keys(slot)}
        ) == len(keys(slot))

    def cost(self, flow: Sequence[Entry]) -> tuple[float, int] | None:
        """Seconds of the flow played alone, then its slots; None where its batches are out of order."""
        found = gaps([entry.present for entry in flow], self.places)
        if found is None:
            return None
        seconds: list[float] = []
        for gap, entry in zip(found, flow, strict=True):
            seconds.extend([0.0] * gap)
            seconds.append(entry.seconds)
        share = self.prices.forward
        forward = [share * each for each in seconds]
        backward = [each - ahead for each, ahead in zip(seconds, forward, strict=True)]
        return makespan(forward, backward, self.places.stages), len(seconds)
