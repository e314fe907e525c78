"""From batches to the step plans of an undrained pipeline, window by window."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from lobra.batch import Batch
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, Shape, StepPlan
from lobra.protocols import CostModel
from policies.adaptive.cutting import Cutter
from policies.adaptive.flow import Judge
from policies.adaptive.nouns import Pack, Prices, Room, Sample, Slot, keys
from policies.adaptive.rule import Places, gaps

Arrange = Callable[[Sequence[Sample], Judge, int], list[Slot]]  # samples of a window, their judge, number of replicas


@dataclass(frozen=True, slots=True)
class Settings:
    """What all undrained orders may be told."""

    window: int
    tile: int
    capacity: int | None

    def __post_init__(self) -> None:
        for field in ("window", "tile"):
            if getattr(self, field) < 1:
                raise BadInput(f"order: {field} is {getattr(self, field)}; it must be at least 1")
        if self.capacity is not None and self.capacity < 1:
            raise BadInput(f"order: capacity is {self.capacity} tokens; it must be at least 1, or null for the budget")


def undrained(
    batches: Iterator[Batch], plan: DeploymentPlan, cost: CostModel, settings: Settings, arrange: Arrange
) -> Iterator[StepPlan]:
    """Step plans that keep the rule of an undrained pipeline; the last one flushes it.

    A batch's step plans carry its number; a slot that closes several batches carries the earliest. BadInput where the
    plan's replicas differ, Infeasible where a sequence does not fit.
    """
    room, prices = _equal(plan, cost, settings)
    places = Places(plan.replicas[0].config.pp)
    held: StepPlan | None = None
    while window := list(islice(batches, settings.window)):
        refs = [ref for batch in window for ref in batch.refs()]
        steps = [batch.step for batch in window for _ in range(len(batch))]
        samples = [
            Sample(ref.tenant, step, ref.length, number)
            for number, (ref, step) in enumerate(zip(refs, steps, strict=True))
        ]
        _refuse_too_long(samples, room)
        slots = arrange(samples, Judge(room, prices, places), len(plan.replicas))
        present = [keys(slot) for slot in slots]
        between = gaps(present, places)
        if between is None:
            raise AssertionError("an order put an adapter's batches out of order")
        for adapters, gap in zip(present, between, strict=True):
            places.put(adapters, gap)
        cutter = Cutter(len(plan.replicas), refs, room)
        for step in cutter.step_plans([batch.step for batch in window], slots, between):
            if held is not None:
                yield held
            held = step
    if held is not None:
        yield replace(held, drain=True)


def _equal(plan: DeploymentPlan, cost: CostModel, settings: Settings) -> tuple[Room, Prices]:
    """Room and prices of a pack on any of the replicas, which must be equal."""
    replica = plan.replicas[0]
    kinds = {(other.config, other.budget, other.layers) for other in plan.replicas}
    if len(kinds) > 1:
        raise BadInput(
            f"order: the plan {plan.summary()} has {len(kinds)} kinds of replicas, but an undrained order gives every "
            "replica the same slots; choose policy/deployment=homogeneous"
        )
    room = Room(min(settings.capacity or replica.budget, replica.budget), settings.tile)
    rates = cost.rates(replica.config, np.array([room.tokens]))
    prices = rates.pack
    if prices is None:
        raise BadInput(
            f"order: the cost model has no price for packs on {replica.config}, its form is made for padded "
            "micro-batches; choose a cost form in tokens and squares"
        )
    full = Shape(1, room.tokens, room.tokens, room.tokens, room.tokens**2, 1, 1)
    ahead, back = (cost.stage_seconds(replica, 0, full, kind) for kind in ("forward", "backward"))

    def seconds(pack: Pack, width: int) -> float:
        squares = width**2 if len(pack) == 1 else sum(sample.length**2 for sample in pack)
        runs = len({sample.adapter for sample in pack})
        affine = prices.fixed + prices.run * runs + prices.token * width + prices.square * squares
        return max(rates.floor, affine)

    return room, Prices(seconds, ahead / (ahead + back))


def _refuse_too_long(samples: Sequence[Sample], room: Room) -> None:
    longest = max(samples, key=lambda sample: sample.length, default=None)
    if longest is not None and longest.length > room.tokens:
        raise Infeasible(
            f"order: tenant {longest.adapter} has a sequence of {longest.length} tokens, but a micro-batch holds "
            f"{room.tokens}; raise policy.order.capacity, choose larger replicas, or lower the tenant's context_limit"
        )
