"""Context parallelism for those who need it: in one step, groups of several sizes and replicas by themselves.

Idea: equal small replicas compute a long sequence together and short ones alone, so that long sequences need no large
tensor parallelism and short ones do not pay for the long ones' group size. Groups are nested blocks of powers of two
(see `blocks`). A fluid program with every bucket at its cheapest size on each kind (`policies.bounds.sharing`) says how
much of it each kind takes; blocks are dealt to from the largest down, replicas by themselves last, always balanced
with what they have to do already; then single sequences move between slots as long as the true packs say that the step
gets shorter. That is done for several least sizes of a group, since a few long sequences in small groups may take
longer than the step. The best is taken, or plain balanced dispatch or one group size for all (`SharedGroups`), where
either is faster: never slower than those. Source: FlexSP (arXiv 2412.01523) chooses group
sizes by sequence, each GPU being in one group a step; time-sharing nested blocks and the fluid are our own.

Cost: for every least size a balanced dispatch of each size in use and a repair, and the two other dispatches; 0.1-0.4 s
for 832 sequences on 16 GPUs. Limits: only replicas without a pipeline share; what a class needs is decided for the
class, so one that a single size serves best is not split over two; group sizes are powers of two; packed, the repair
levels replicas but does not merge packs that long sequences left half empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from lobra.batch import Bucket
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, MicroBatch
from lobra.protocols import Batching, CostModel
from lobra.rates import Assignment
from lobra.schedule import closed_form
from policies.bounds.sharing import SharedFluid, shared_fluid
from policies.dispatch.balanced import Balanced
from policies.dispatch.block_dealing import Sharing, dealt, sharing_of
from policies.dispatch.block_repair import Placed, repair_blocks
from policies.dispatch.blocks import slots_of
from policies.dispatch.shared import SharedGroups
from policies.evaluate import microbatch_seconds

ROUGH = 1.02  # of the best step so far: packed, a fluid may be that much too slow, so it is tried all the same


@dataclass(frozen=True, slots=True)
class FlexibleGroups:
    """Every sequence to as many replicas as suit it."""

    largest: int | None = None  # replicas of a group, at most; None: as many as there are
    balanced: Balanced = Balanced()  # noqa: RUF009  # frozen, so a shared default is safe

    def __post_init__(self) -> None:
        if self.largest is not None and self.largest < 1:
            raise BadInput(f"flexible groups: largest is {self.largest}; give 1 or more replicas, or none")

    def assign(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        """Every sequence to one replica or group; Infeasible where a bucket fits no group that can be formed."""
        if not buckets:
            return Assignment(((),) * len(plan.replicas))
        options: list[Assignment] = []
        refusal = None
        for way in (self._alone, self._flexible, self._one_size):
            try:
                option = way(buckets, plan, batching, cost)
            except Infeasible as error:
                refusal = error
            else:
                options += [option] if option is not None else []
        if not options:
            assert refusal is not None  # without groups, one of the others says so
            raise refusal
        if len(options) == 1:
            return options[0]
        return min(options, key=lambda option: assignment_seconds(option, plan, batching, cost))

    def _alone(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        return self.balanced.assign(buckets, plan, batching, cost)

    def _one_size(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment | None:
        found = SharedGroups(None, self.balanced).assign(buckets, plan, batching, cost)
        size = max((len(microbatch.group) for microbatch in found.shared), default=1)
        return found if 1 < size <= (self.largest or size) else None

    def _flexible(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment | None:
        """The best of several least group sizes; None where nothing is to be shared."""
        slots = slots_of(plan, self.largest)
        sharing = sharing_of(buckets, slots, batching, cost)
        quick = replace(self.balanced, work=0)
        best: tuple[SharedFluid, Placed] | None = None
        for fluid in _fluids(sharing):
            if best is not None and fluid.seconds >= ROUGH * best[1].makespan:
                continue
            placed = Placed.of(buckets, dealt(sharing, fluid, quick), sharing, batching, cost)
            repair_blocks(placed, self.balanced.repair)
            if best is None or placed.makespan < best[1].makespan:
                best = fluid, placed
        if best is None:
            return None
        fluid, placed = best
        if not self.balanced.repair:  # counts tell enough for kicks to pay; packed, the repair did more in less time
            thorough = Placed.of(buckets, dealt(sharing, fluid, self.balanced), sharing, batching, cost)
            placed = min(placed, thorough, key=lambda each: each.makespan)
        return _assignment(placed)


def _assignment(placed: Placed) -> Assignment:
    """Shared micro-batches from the largest blocks to the smallest, the costliest of a size first; then the shares."""
    slots = placed.sharing.slots
    timed: list[tuple[int, float, MicroBatch]] = []
    shares: list[tuple[Bucket, ...]] = []
    for machine, held in zip(slots.machines, placed.held, strict=True):
        share = placed.share(held)
        if machine.shards == 1:
            shares.append(share)
            continue
        for microbatch in placed.batching.form(share, machine.replica, placed.cost, group=machine.group):
            seconds = microbatch_seconds(microbatch, machine.replica, placed.cost)
            timed.append((-machine.shards, -seconds, microbatch))
    timed.sort(key=itemgetter(0, 1))
    return Assignment(tuple(shares), tuple(microbatch for _, _, microbatch in timed))


def _fluids(sharing: Sharing) -> Iterator[SharedFluid]:
    """Fluids in which whoever shares shares with 1, 3, 7, ... others at least: those that share at all, and differ."""
    bases = sorted({size for kind in sharing.sizes for size in kind if size > 1})
    seen: set[bytes] = set()
    for base in bases:
        sizes = [{size: loads for size, loads in kind.items() if size == 1 or size >= base} for kind in sharing.sizes]
        try:
            fluid = shared_fluid(sizes, sharing.replicas, sharing.counts)
        except Infeasible:
            continue
        used = np.where(fluid.flow > 0, fluid.size, 0)
        if (used > 1).any() and used.tobytes() not in seen:
            seen.add(used.tobytes())
            yield fluid


def assignment_seconds(assignment: Assignment, plan: DeploymentPlan, batching: Batching, cost: CostModel) -> float:
    """Seconds of the slowest replica, formed as it will be; groups are nested or apart, so that nobody waits."""
    together: list[list[float]] = [[] for _ in plan.replicas]
    for microbatch in assignment.shared:
        seconds = microbatch_seconds(microbatch, plan.replicas[microbatch.group[0]], cost)
        for member in microbatch.group:
            together[member].append(seconds)
    return max(
        closed_form(
            [*shared, *(microbatch_seconds(each, replica, cost) for each in batching.form(share, replica, cost))],
            replica.config.pp,
        )
        for shared, share, replica in zip(together, assignment.shares, plan.replicas, strict=True)
    )
