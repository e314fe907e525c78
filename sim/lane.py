"""A lane: one replica's pipeline that is not flushed, played slot by slot."""

from collections import deque
from dataclasses import dataclass

from lobra.trace import Span, SpanKind


@dataclass(frozen=True, slots=True)
class Slot:
    """One micro-batch on its way through a pipeline; an empty one takes no time and leaves no span."""

    forward: tuple[float, ...]  # [stage]
    backward: tuple[float, ...]  # [stage]
    transfer: float = 0.0
    empty: bool = False


def empty_slot(stages: int) -> Slot:
    """A place in the order of a pipeline with nothing to do."""
    return Slot((0.0,) * stages, (0.0,) * stages, empty=True)


class Lane:
    """In round m a stage s begins slot m, then ends slot m - (stages - 1 - s).

    That is the order of `one_forward_one_backward` for as many micro-batches as may come. The gradient that a stage
    needs left its neighbour in the round before, so one pass over the stages plays a round. A message delays whoever
    receives it, never the sender.
    """

    __slots__ = ("_done", "_free", "_replica", "_sent", "_slots", "_turn", "spans")

    def __init__(self, replica: int, stages: int) -> None:
        self._replica = replica
        self._free = [0.0] * stages
        self._sent = [(0.0, 0.0)] * (stages + 1)  # when a stage's latest gradient left, and when it arrives
        self._slots: deque[Slot | None] = deque(maxlen=stages)  # those of the last rounds; None: nothing began
        self._turn = 0
        self._done: list[float] = []  # when each slot had left the pipeline
        self.spans: list[Span] = []  # of all stages, stage by stage in the order of the schedule

    @property
    def stages(self) -> int:
        """How many it has."""
        return len(self._free)

    @property
    def ready(self) -> float:
        """When the first stage could begin the next slot."""
        return self._free[0]

    @property
    def known(self) -> float:
        """Until when all that its stages do is played: nothing that is still to come begins earlier."""
        return min(self._free)

    def left(self, number: int) -> float:
        """When a slot that was played to its end, and all before it, had left the pipeline."""
        return self._done[min(number, len(self._done) - 1)] if self._done else 0.0

    def play(self, slot: Slot | None, release: float = 0.0) -> None:
        """One round; the slot begins at `release` at the earliest. None: nothing begins any more."""
        self._slots.append(slot)
        left = arrived = release
        for stage in range(len(self._free)):
            if slot is not None:
                if stage:
                    self._log(stage, self._turn, "transfer", left, arrived)
                start = max(self._free[stage], arrived)
                left = self._free[stage] = start + slot.forward[stage]
                arrived = left + slot.transfer
                if not slot.empty:
                    self._log(stage, self._turn, "forward", start, left, zero=True)
            back = len(self._free) - 1 - stage
            if back < len(self._slots):
                self._end(stage, self._slots[-1 - back], self._turn - back)
        self._turn += 1

    def _end(self, stage: int, slot: Slot | None, number: int) -> None:
        if slot is None:
            return
        left, arrived = self._sent[stage + 1]
        if stage + 1 < len(self._free):
            self._log(stage, number, "transfer", left, arrived)
        start = max(self._free[stage], arrived)
        end = self._free[stage] = start + slot.backward[stage]
        self._sent[stage] = end, end + slot.transfer
        if not slot.empty:
            self._log(stage, number, "backward", start, end, zero=True)
        if stage == 0:
            self._done.append(end)

    def _log(self, stage: int, number: int, kind: SpanKind, start: float, end: float, *, zero: bool = False) -> None:
        if zero or end > start:
            self.spans.append(Span(self._replica, stage, number, kind, start, end))
