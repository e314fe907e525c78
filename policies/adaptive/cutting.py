"""Slots into step plans: one between two updates, so that every adapter steps as soon as its batch is done."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef
from policies.adaptive.nouns import Key, Pack, Room, Slot, keys


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts the slots of a window."""

    lanes: int  # replicas
    refs: Sequence[SequenceRef]  # by the number of a sample
    room: Room

    def step_plans(self, batches: Sequence[int], slots: Sequence[Slot], gaps: Sequence[int]) -> Iterator[StepPlan]:
        """Undrained step plans, with an empty one for every empty slot; gaps: how many before each slot.

        A step plan carries the number of the earliest batch that is not done; every batch has one at least.
        """
        open_keys = Counter(batch for _, batch in frozenset[Key]().union(*map(keys, slots)))
        waiting, told = deque(batches), set[int]()

        def passed() -> Iterator[StepPlan]:
            while waiting and not open_keys[waiting[0]]:
                if waiting[0] not in told:
                    yield self._step_plan(waiting[0], ())
                waiting.popleft()

        for gap, together, closed in _segments(slots, gaps):
            yield from passed()
            told.add(waiting[0])
            for _ in range(gap):
                yield self._step_plan(waiting[0], ())
            yield self._step_plan(waiting[0], together, closed)
            open_keys.subtract(batch for _, batch in closed)
        yield from passed()

    def _step_plan(self, number: int, slots: Sequence[Slot], closed: Sequence[Key] = ()) -> StepPlan:
        work = tuple(tuple(self._microbatch(slot[lane]) for slot in slots if slot[lane]) for lane in range(self.lanes))
        return StepPlan(number, work, tuple(sorted(adapter for adapter, _ in closed)), drain=False)

    def _microbatch(self, pack: Pack) -> MicroBatch:
        row = sorted((self.refs[sample.number] for sample in pack), key=lambda ref: (ref.tenant, ref.index))
        return MicroBatch((tuple(row),), self.room.width(pack))


def _segments(slots: Sequence[Slot], gaps: Sequence[int]) -> Iterator[tuple[int, list[Slot], list[Key]]]:
    """Slots up to an update, with the empty ones before them and the batches that end with them.

    An idle replica ends one too: in a step plan the empty slots of a replica come last.
    """
    last = {key: place for place, slot in enumerate(slots) for key in keys(slot)}
    before = 0
    together: list[Slot] = []
    for place, (slot, gap) in enumerate(zip(slots, gaps, strict=True)):
        if gap and together:
            yield before, together, []
            together = []
        before = before if together else gap
        together.append(slot)
        closed = sorted(key for key in keys(slot) if last[key] == place)
        if closed or not all(slot):
            yield before, together, closed
            together = []
