"""The rule of an undrained pipeline: an adapter's next batch waits until its last one has left the pipeline.

On the first stage the forward of slot p follows the backward of slot p - S, S being the number of stages. So a batch
sees the weights that its adapter's batch before it has left behind if, and only if, its first slot comes S slots or
more after that one's last (LoRAFusion, arXiv 2510.00206, calls this the bubble lemma). Where too little lies between,
empty slots fill the gap: here exactly where and as many as are missing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from policies.adaptive.nouns import Key


@dataclass(slots=True)
class Places:
    """Where each adapter stands in a flow of slots that goes on and on."""

    stages: int
    next: int = 0  # the next free slot
    batch: dict[int, int] = field(default_factory=dict)  # adapter -> its batch in progress
    last: dict[int, int] = field(default_factory=dict)  # adapter -> the last slot of that batch
    before: dict[int, int] = field(default_factory=dict)  # adapter -> the last slot of the batch before

    def copy(self) -> "Places":
        """The same places, to go on from without changing these."""
        return Places(self.stages, self.next, dict(self.batch), dict(self.last), dict(self.before))

    def gap(self, present: Iterable[Key]) -> int | None:
        """Empty slots needed before a slot with these adapters and batches; None where a batch is over already."""
        earliest = self.next
        for adapter, batch in present:
            current = self.batch.get(adapter, -1)
            if batch < current:
                return None
            over = self.last.get(adapter) if batch > current else self.before.get(adapter)
            if over is not None and over + self.stages > earliest:
                earliest = over + self.stages
        return earliest - self.next

    def put(self, present: Iterable[Key], gap: int) -> None:
        """Take the slot after `gap` empty ones."""
        place = self.next + gap
        for adapter, batch in present:
            if batch != self.batch.get(adapter, -1):
                if adapter in self.last:
                    self.before[adapter] = self.last[adapter]
                self.batch[adapter] = batch
            self.last[adapter] = place
        self.next = place + 1


def gaps(present: Sequence[frozenset[Key]], places: Places) -> list[int] | None:
    """Empty slots needed before each slot, as early in the list as they may be; None where no number would do.

    `places` is where the flow stands before the first of them; it is left as it is.
    """
    places = places.copy()
    found = []
    for adapters in present:
        gap = places.gap(adapters)
        if gap is None:
            return None
        places.put(adapters, gap)
        found.append(gap)
    return found
