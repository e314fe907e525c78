"""What a tenant set's steps take on a plan: seconds of a few batches, and where the GPU seconds go.

Of R replicas with g GPUs each, a step of T seconds without its synchronisation takes T times all GPUs of the cluster:
computing (useful or padding, by the tokens of each micro-batch), bubbles (a replica's closed form less its computing),
and idling (replicas that wait for the slowest, GPUs without a replica). Their sum is the step, to rounding.
"""

from collections.abc import Sequence

from lobra.plan import DeploymentPlan, MicroBatch, Replica, Shape
from lobra.protocols import CostModel
from lobra.schedule import closed_form
from policies.deployment.judge import Judge
from policies.policy import step_plan
from sim.fleet.nouns import Split, StepTime

Prices = dict[tuple[Replica, Shape], tuple[float, float]]  # the slowest stage's seconds, GPU seconds of all stages


def timed(plan: DeploymentPlan, judge: Judge) -> StepTime:
    """The judge's batches on this plan, one by one."""
    synchronise = judge.cost.synchronise_seconds(plan)
    prices: Prices = {}
    seconds, split = [], Split()
    for batch in judge.batches:
        step = step_plan(batch, plan, judge.batching, judge.dispatch, judge.cost)
        busy, computing = [], Split()
        for work, replica in zip(step.work, plan.replicas, strict=True):
            took, spent = _replica(work, replica, judge.cost, prices)
            busy.append(took)
            computing = computing.plus(spent)
        slowest = max(busy)
        idle = slowest * plan.cluster.gpus - computing.total
        split = split.plus(computing).plus(Split(idle=max(0.0, idle), synchronisation=synchronise * plan.cluster.gpus))
        seconds.append(slowest + synchronise)
    return StepTime(tuple(seconds), Split(*(value / len(seconds) for value in split)))


def _replica(work: Sequence[MicroBatch], replica: Replica, cost: CostModel, prices: Prices) -> tuple[float, Split]:
    """Seconds of a replica's micro-batches by the closed form, and its GPU seconds in that time."""
    stage_seconds, useful, padding = [], 0.0, 0.0
    for microbatch in work:
        shape = microbatch.shape
        if (replica, shape) not in prices:
            prices[replica, shape] = _price(shape, replica, cost)
        slowest, gpu_seconds = prices[replica, shape]
        stage_seconds.append(slowest)
        useful += gpu_seconds * shape.useful / shape.tokens
        padding += gpu_seconds * (1 - shape.useful / shape.tokens)
    seconds = closed_form(stage_seconds, replica.config.pp)
    bubble = max(0.0, seconds * replica.config.gpus - useful - padding)
    return seconds, Split(useful=useful, padding=padding, bubble=bubble)


def _price(shape: Shape, replica: Replica, cost: CostModel) -> tuple[float, float]:
    stages = [
        cost.stage_seconds(replica, stage, shape, "forward") + cost.stage_seconds(replica, stage, shape, "backward")
        for stage in range(replica.config.pp)
    ]
    return max(stages), sum(stages) * replica.config.tp
