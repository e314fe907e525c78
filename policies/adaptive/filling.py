"""How full micro-batches are made before anything is moved: as full as can be, or evenly."""

from collections.abc import Sequence

from policies.adaptive.flow import Judge
from policies.adaptive.groups import demand, grouped
from policies.adaptive.nouns import Pack, Room, Sample, Slot
from policies.adaptive.packing import even, fewest


def filled(samples: Sequence[Sample], judge: Judge, lanes: int) -> tuple[list[Slot], list[Slot]]:
    """Batch by batch, group by group: as few packs as possible, full ones first; and as many of even width."""
    room, stages = judge.room, judge.places.stages
    batches = sorted({sample.batch for sample in samples})
    lengths: dict[int, list[int]] = {}
    parts: dict[tuple[int, int], list[Sample]] = {}
    for sample in samples:
        lengths.setdefault(sample.adapter, []).append(sample.length)
        parts.setdefault((sample.batch, sample.adapter), []).append(sample)
    demands = [
        demand(adapter, found, len(found) / len(batches), room.tokens * lanes)
        for adapter, found in sorted(lengths.items())
    ]
    full: list[Slot] = []
    flat: list[Slot] = []
    for batch in batches:
        for group in grouped(demands, stages):
            together = [sample for adapter in group for sample in parts.get((batch, adapter), ())]
            if together:
                packs = fewest(together, room)
                full.extend(dealt(packs, lanes))
                flat.extend(evenly(together, room, len(packs), lanes))
    return full, flat


def evenly(samples: Sequence[Sample], room: Room, number: int, lanes: int) -> list[Slot]:
    """Slots of about equally wide packs, at least `number` of them, as many as fill the slots."""
    number = -(-number // lanes) * lanes
    while (packs := even(samples, room, number)) is None:
        number += lanes
    return dealt(packs, lanes)


def dealt(packs: Sequence[Pack], lanes: int) -> list[Slot]:
    """Packs, widest first, in slots of one a lane: neighbours are about equally wide."""
    slots = []
    for start in range(0, len(packs), lanes):
        slot = tuple(packs[start : start + lanes])
        slots.append(slot + ((),) * (lanes - len(slot)))
    return [slot for slot in slots if any(slot)]
