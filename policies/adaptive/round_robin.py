"""Round robin in the manner of mLoRA: adapters take turns, each with micro-batches of its own, no flush between steps.

The idea. Each adapter packs its batch for itself; the pipeline takes a micro-batch of one adapter after another, and an
adapter whose next batch may not begin yet is passed over. That is the order of mLoRA (TUDB-Labs, VLDB 2025), where a
task is locked until its micro-batch has come back. With as many adapters as stages the pipeline is full.

What differs, and why. mLoRA pads every sequence of a fixed mini-batch to the longest and locks a task after every
micro-batch: here micro-batches are packed up to the budget, as everywhere else, and of one batch as many may be on
their way as it has, since only its last one is followed by an update. A later batch begins only where all that is left
of earlier ones must wait. Cost: O(slots * adapters). Limits: adapters never share a micro-batch, so their last ones are
the less full the more adapters there are; equal replicas.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lobra.batch import Batch
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel
from policies.adaptive.filling import evenly
from policies.adaptive.flow import Judge
from policies.adaptive.nouns import Sample, Slot, keys
from policies.adaptive.packing import fewest
from policies.adaptive.stream import Settings, undrained


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """An Order: one adapter after another."""

    window: int = 2  # batches among which an adapter may work ahead
    tile: int = 1
    capacity: int | None = None

    def __post_init__(self) -> None:
        Settings(self.window, self.tile, self.capacity)

    def steps(self, batches: Iterator[Batch], plan: DeploymentPlan, cost: CostModel) -> Iterator[StepPlan]:
        """Step plans of an undrained pipeline; the last one flushes it."""
        return undrained(batches, plan, cost, Settings(self.window, self.tile, self.capacity), self.arranged)

    def arranged(self, samples: Sequence[Sample], judge: Judge, lanes: int) -> list[Slot]:
        """All samples of a window in slots, in order."""
        return in_turn(samples, judge, lanes)


def in_turn(samples: Sequence[Sample], judge: Judge, lanes: int) -> list[Slot]:
    """Each adapter's batches in slots of its own, evenly filled; the adapters by turns."""
    parts: dict[tuple[int, int], list[Sample]] = {}
    for sample in samples:
        parts.setdefault((sample.adapter, sample.batch), []).append(sample)
    waiting: dict[int, list[tuple[int, Slot]]] = {}
    for (adapter, batch), part in sorted(parts.items()):
        slots = evenly(part, judge.room, len(fewest(part, judge.room)), lanes)
        waiting.setdefault(adapter, []).extend((batch, slot) for slot in slots)
    return _by_turns(waiting, judge)


def _by_turns(waiting: dict[int, list[tuple[int, Slot]]], judge: Judge) -> list[Slot]:
    """Whoever needs the fewest empty slots before; of these the earliest batch; of these whose turn is next."""
    places = judge.places.copy()
    turn, found = -1, list[Slot]()
    following = max(waiting, default=0) + 1
    while waiting:
        gaps = {adapter: places.gap(keys(queue[0][1])) or 0 for adapter, queue in waiting.items()}
        turn = min(waiting, key=lambda one: (gaps[one], waiting[one][0][0], (one - turn - 1) % following))
        _, slot = waiting[turn].pop(0)
        places.put(keys(slot), gaps[turn])
        found.append(slot)
        if not waiting[turn]:
            del waiting[turn]
    return found
