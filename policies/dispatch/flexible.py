"""Context parallelism for those who need it: in one step, groups of several sizes and replicas by themselves.

Idea: equal small replicas compute a long sequence together and short ones alone, so that long sequences need no large
tensor parallelism and short ones do not pay for the long ones' group size. Groups are nested blocks of powers of two
(see `blocks`). A fluid program with every bucket at its cheapest size on each kind (`policies.bounds.sharing`) says how
much of it each kind takes; blocks are dealt to from the largest down, replicas by themselves last, always balanced
with what they have to do already; then single sequences move between slots as long as their packs say that the step
gets shorter. Fluids are solved for several least sizes of a group, since a few long sequences in small groups may take
longer than the step. Padded, each that comes near the best is dealt; packed, the last of them alone: its packs are the
fullest, and the others end at most 0.3 % sooner or later. Plain balanced dispatch or one group size for all
(`SharedGroups`) is taken where it is faster: never slower than those, by the prices that planning knows. They are
looked for only where their fluids are below what was found. Source: FlexSP (arXiv 2412.01523) chooses group sizes by
sequence, each GPU being in one group a step; time-sharing nested blocks and the fluid are our own.

Cost, packed: a balanced dispatch of each size in use, one packing of every slot and two for each try of the repair:
55 CPU ms for 832 sequences on 16 GPUs, 0.6 s for 26,624 on 512 (benchmarks/bench_dispatch.py). Limits: only replicas
without a pipeline share; what a class needs is decided for the class, so one that a single size serves best is not
split over two; group sizes are powers of two; packed, the repair levels replicas but does not merge packs that long
sequences left half empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from lobra.batch import Bucket
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, MicroBatch
from lobra.protocols import Batching, CostModel
from lobra.rates import Assignment
from lobra.schedule import closed_form
from policies.bounds.fluid import fluid_bound
from policies.bounds.sharing import SharedFluid, shared_fluid
from policies.dispatch.balanced import Balanced
from policies.dispatch.block_dealing import Sharing, dealt, sharing_of
from policies.dispatch.block_repair import Placed, repair_blocks
from policies.dispatch.blocks import slots_of
from policies.dispatch.fleet import bucket_counts, fleet_of
from policies.dispatch.shared import SharedGroups, groups_of
from policies.evaluate import microbatch_seconds

MANY = 24  # replicas above which the tries of a repair grow with their root
ROUGH = 1.02  # of the least fluid: packed, one may be that much too slow, so it is tried all the same


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
        sharing = sharing_of(buckets, slots_of(plan, self.largest), batching, cost)
        found, best = self._flexible(buckets, sharing, batching, cost)
        for way in (self._alone, self._one_size):
            other = way(buckets, plan, batching, cost, faster_than=best)
            if other is None:
                continue
            options = [each for each in (found, other) if each is not None]
            timed = [(assignment_seconds(option, plan, batching, cost), option) for option in options]
            best, found = min(timed, key=itemgetter(0))
        if found is None:
            return self.balanced.assign(buckets, plan, batching, cost)  # which says what does not fit
        return found

    def _alone(
        self,
        buckets: tuple[Bucket, ...],
        plan: DeploymentPlan,
        batching: Batching,
        cost: CostModel,
        faster_than: float,
    ) -> Assignment | None:
        """No groups at all; None where that cannot be faster."""
        if _one_size_bound(1, buckets, plan, batching, cost) >= faster_than:
            return None
        return self.balanced.assign(buckets, plan, batching, cost)

    def _one_size(
        self,
        buckets: tuple[Bucket, ...],
        plan: DeploymentPlan,
        batching: Batching,
        cost: CostModel,
        faster_than: float,
    ) -> Assignment | None:
        """One group size for all; None where that cannot be faster, or none may be formed."""
        shared = SharedGroups(None, self.balanced)
        candidates = shared.candidates(buckets, plan)
        largest = self.largest or len(plan.replicas)
        sizes = [
            size
            for size in candidates
            if 1 < size <= largest and _one_size_bound(size, buckets, plan, batching, cost) < faster_than
        ]
        if not sizes and (candidates or np.isfinite(faster_than)):
            return None
        return shared.among(sizes, buckets, plan, batching, cost)

    def _flexible(
        self, buckets: tuple[Bucket, ...], sharing: Sharing, batching: Batching, cost: CostModel
    ) -> tuple[Assignment | None, float]:
        """Blocks dealt to and levelled, and their seconds; None and infinity where nothing is to be shared."""
        fluids = _promising(list(_fluids(sharing)))
        if not fluids:
            return None, np.inf
        quick = replace(self.balanced, work=0)
        if self.balanced.repair:  # packed, a repair does more than kicks, in less time
            placed = Placed.of(buckets, dealt(sharing, fluids[-1], quick), sharing, batching, cost)
            tries = self.balanced.repair * max(1.0, len(sharing.slots.above) / MANY) ** 0.5
            repair_blocks(placed, int(tries))
        else:
            tried = [Placed.of(buckets, dealt(sharing, each, quick), sharing, batching, cost) for each in fluids]
            best = fluids[min(range(len(fluids)), key=lambda place: tried[place].makespan)]
            thorough = Placed.of(buckets, dealt(sharing, best, self.balanced), sharing, batching, cost)
            placed = min(*tried, thorough, key=lambda each: each.makespan)
        return _assignment(placed, batching, cost), placed.makespan


def _assignment(placed: Placed, batching: Batching, cost: CostModel) -> Assignment:
    """Shared micro-batches from the largest blocks to the smallest, the costliest of a size first; then the shares."""
    slots = placed.sharing.slots
    timed: list[tuple[int, float, MicroBatch]] = []
    shares: list[tuple[Bucket, ...]] = []
    for machine, held in zip(slots.machines, placed.held, strict=True):
        share = placed.share(held)
        if machine.shards == 1:
            shares.append(share)
            continue
        for microbatch in batching.form(share, machine.replica, cost, group=machine.group):
            seconds = microbatch_seconds(microbatch, machine.replica, cost)
            timed.append((-machine.shards, -seconds, microbatch))
    timed.sort(key=itemgetter(0, 1))
    return Assignment(tuple(shares), tuple(microbatch for _, _, microbatch in timed))


def _promising(fluids: Sequence[SharedFluid]) -> list[SharedFluid]:
    """Those that may be the best, least sizes ascending: packs of larger groups are fuller than the fluid knows."""
    least = min((fluid.seconds for fluid in fluids), default=0.0)
    return [fluid for fluid in fluids if fluid.seconds <= ROUGH * least]


def _one_size_bound(
    size: int, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
) -> float:
    """Seconds that no dispatch to groups of this one size beats; infinity where a bucket fits none of them."""
    try:
        fleet = fleet_of(buckets, groups_of(plan, size), batching, cost)
    except (Infeasible, BadInput):  # BadInput: more shards than the cost model can price
        return float("inf")
    least = [loads if loads.least is None else replace(loads, each=loads.least) for loads in fleet.loads]
    return fluid_bound(least, fleet.sizes.tolist(), bucket_counts(buckets))


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
