"""The judge: what a plan's steps will take, by the batching and dispatch that will run them.

Every candidate is played on the planner's own batches through the same path as the real ones and timed by the exact
evaluator: the slowest replica's micro-batches in closed form, then the gradient synchronisation, which decides between
many small replicas and few large ones where steps are short (16 replicas of 7B with six tenants: 51 ms, two: 4 ms).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from lobra.batch import Batch
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.protocols import Batching, CostModel, DispatchPolicy
from lobra.schedule import closed_form, stage_sizes
from policies.policy import step_plan

JUDGED_SEQUENCES = 20_000  # a plan is judged on at most about this many sequences, but on one batch at least


@dataclass(frozen=True, slots=True)
class Judge:
    """Plays plans on given batches."""

    batches: tuple[Batch, ...]
    batching: Batching
    dispatch: DispatchPolicy
    cost: CostModel
    floors: tuple[float, ...] = ()  # seconds of each batch that no plan beats: lets hopeless plans go early

    def seconds(self, plan: DeploymentPlan, at_most: float = inf) -> float:
        """Mean seconds of a step; infinity where a sequence of these batches fits nowhere, or the mean is `at_most`."""
        floors = self.floors or (0.0,) * len(self.batches)
        total = len(self.batches) * self.cost.synchronise_seconds(plan)
        for number, batch in enumerate(self.batches, 1):
            try:
                total += self._step(batch, plan)
            except Infeasible:
                return inf
            if total + sum(floors[number:]) >= at_most * len(self.batches):
                return inf
        return total / len(self.batches)

    def holds(self, plan: DeploymentPlan) -> bool:
        """Whether every sequence of the batches has a place; a group that the cost model cannot price has none."""
        try:
            return self.seconds(plan) < inf
        except BadInput:
            return False

    def _step(self, batch: Batch, plan: DeploymentPlan) -> float:
        step = step_plan(batch, plan, self.batching, self.dispatch, self.cost)
        priced: dict[tuple[ReplicaConfig, tuple[int, ...] | None, Shape], float] = {}  # padded shapes repeat
        slowest = 0.0
        for work, replica in zip(step.work, plan.replicas, strict=True):
            stages, seconds = _unlike(plan.model.layers, replica), []
            for microbatch in work:
                key = (replica.config, replica.layers, microbatch.shape)
                if key not in priced:
                    priced[key] = _slowest(stages, microbatch.shape, replica, self.cost)
                seconds.append(priced[key])
            slowest = max(slowest, closed_form(seconds, replica.config.pp))
        return slowest


def _unlike(layers: int, replica: Replica) -> tuple[int, ...]:
    """Stages that may differ: the first, the last, and one of each number of layers between them."""
    sizes = stage_sizes(layers, replica.config.pp, replica.layers)
    return tuple(sorted({0, len(sizes) - 1, *(sizes.index(size) for size in set(sizes[1:-1]))}))


def _slowest(stages: Sequence[int], shape: Shape, replica: Replica, cost: CostModel) -> float:
    """Forward plus backward of the slowest of these stages."""
    return max(
        cost.stage_seconds(replica, stage, shape, "forward") + cost.stage_seconds(replica, stage, shape, "backward")
        for stage in stages
    )


def within_reach(batches: Sequence[Batch], sequences: int = JUDGED_SEQUENCES) -> tuple[Batch, ...]:
    """As many of the batches, from the first, as hold that many sequences together; one at least."""
    chosen, held = [batches[0]], len(batches[0])
    for batch in batches[1:]:
        held += len(batch)
        if held > sequences:
            break
        chosen.append(batch)
    return tuple(chosen)


def unplayable(judge: Judge) -> Infeasible:
    """Every plan left some sequence of the planning batches without a place."""
    return Infeasible(
        f"deployment: no plan could be played on the planning batches: {type(judge.dispatch).__name__} with "
        f"{type(judge.batching).__name__} finds no place for some sequence; choose a dispatch that shares "
        f"micro-batches, or kinds that hold the longest sequence alone"
    )
