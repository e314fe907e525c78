"""Adaptive batching in the manner of LoRAFusion: adapters in groups, few full micro-batches, no flush between steps.

The idea. An adapter's next batch must not begin before its last one has left the pipeline (see `rule`), but others'
micro-batches may lie between; so nothing is flushed, and the bubble is paid once a run instead of once a step. As in
LoRAFusion (arXiv 2510.00206) adapters are grouped, long beside short ones (`groups`); a batch of a group is packed into
as few micro-batches as possible, each adapter's share rounded up to whole tiles of its kernel (`packing`); smaller
micro-batches of neighbouring groups are joined where they fit; empty slots fill what the rule still misses.

What differs, and why. LoRAFusion packs by two integer programs with a limit in seconds: here it is best-fit decreasing
and a short exact search, which take milliseconds and answer the same on every machine. It makes all micro-batches of a
batch but the last as full as possible: in a pipeline uneven micro-batches wait for one another, so that filling is
tried beside an even one and beside adapters that take turns, each for itself; a local search (`improve`) goes on from
all three, judged by the pipeline's own clock (`pipeline`). It puts empty slots before whole groups and stops after two
rounds, legal or not: here they lie exactly where they are missing, for any number of stages, micro-batches and
adapters, ragged batches included. It knows one pipeline and copies of it: here the replicas' micro-batches of a slot
come from one packing, about equally wide.

Cost: O(work) a window. Limits: equal replicas; the search looks at `window` batches at a time and judges them as if
the pipeline were empty before. Deployment is planned as if pipelines were flushed, so it overrates what pp costs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lobra.batch import Batch
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel
from policies.adaptive.filling import filled
from policies.adaptive.flow import Entry, Judge
from policies.adaptive.improve import improved
from policies.adaptive.nouns import Sample, Slot
from policies.adaptive.round_robin import in_turn
from policies.adaptive.stream import Settings, undrained


@dataclass(frozen=True, slots=True)
class Adaptive:
    """An Order: groups of adapters, packed together, one group after another."""

    window: int = 2  # batches planned at once
    tile: int = 128  # tokens; an adapter's share of a micro-batch is rounded up to a multiple
    capacity: int | None = None  # tokens of a micro-batch; None: the replica's budget
    work: int = 1000  # of the local search, for each batch of the window and each of three beginnings

    def __post_init__(self) -> None:
        if self.work < 0:
            raise BadInput(f"adaptive order: work is {self.work}; it must not be negative")
        Settings(self.window, self.tile, self.capacity)

    def steps(self, batches: Iterator[Batch], plan: DeploymentPlan, cost: CostModel) -> Iterator[StepPlan]:
        """Step plans of an undrained pipeline; the last one flushes it."""
        return undrained(batches, plan, cost, Settings(self.window, self.tile, self.capacity), self.arranged)

    def arranged(self, samples: Sequence[Sample], judge: Judge, lanes: int) -> list[Slot]:
        """All samples of a window in slots, in order."""
        work = self.work * len({sample.batch for sample in samples})
        best: tuple[tuple[float, int], list[Entry]] | None = None
        for filling in (*filled(samples, judge, lanes), in_turn(samples, judge, lanes)):
            flow, cost = improved([judge.entry(slot) for slot in filling], judge, work)
            if best is None or cost < best[0]:
                best = cost, flow
        return [entry.slot for entry in best[1]] if best is not None else []
