"""Prices: what each operation of one replica's work costs, asked once before the step is played."""

import math
from dataclasses import dataclass
from typing import Literal

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Shape, StepPlan
from lobra.protocols import CostModel
from sim.disturbance import Noise

Kind = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds of one replica's operations in one step, noise included, and the tokens they train."""

    forward: list[list[float]]  # [stage][microbatch]
    backward: list[list[float]]  # [stage][microbatch]
    transfer: list[float]  # [microbatch], to a neighbouring stage, either way; empty where there is one stage
    tokens: int  # padding included; a shared micro-batch counts at the first replica of its group
    useful_tokens: int

    @property
    def stages(self) -> int:
        """Pipeline stages of the replica."""
        return len(self.forward)

    @property
    def busy_seconds(self) -> float:
        """Seconds of forward and backward, summed over stages."""
        return sum(map(sum, self.forward)) + sum(map(sum, self.backward))


def price(
    plan: DeploymentPlan, step: StepPlan, replica: int, cost: CostModel, noise: Noise | None, *, before: int = 0
) -> Prices:
    """The prices of one replica's work; BadInput where the cost model's answer is no duration.

    before: its micro-batches of the same step in step plans before this one; noise goes on behind them.
    """
    config, work = plan.replicas[replica].config, step.work[replica]
    shapes = [microbatch.shape for microbatch in work]
    stages = range(config.pp)
    forward = [
        [_stage_seconds(plan, replica, stage, shape, "forward", cost=cost) for shape in shapes] for stage in stages
    ]
    backward = [
        [_stage_seconds(plan, replica, stage, shape, "backward", cost=cost) for shape in shapes] for stage in stages
    ]
    if noise is not None and work:
        _disturb(forward, backward, step.step, replica, noise, before=before)
    transfer = [_transfer_seconds(plan, replica, shape, cost) for shape in shapes] if config.pp > 1 else []
    counted = [
        shape
        for microbatch, shape in zip(work, shapes, strict=True)
        if not microbatch.group or microbatch.group[0] == replica
    ]
    return Prices(
        forward, backward, transfer, sum(shape.tokens for shape in counted), sum(shape.useful for shape in counted)
    )


def duration(seconds: float, name: str) -> float:
    """The same seconds, or BadInput where they are negative, infinite or no number."""
    if not 0.0 <= seconds < math.inf:
        raise BadInput(f"{name} is {seconds} seconds; it must be a finite number, 0 or more")
    return seconds


def _stage_seconds(
    plan: DeploymentPlan, replica: int, stage: int, shape: Shape, kind: Kind, *, cost: CostModel
) -> float:
    seconds = cost.stage_seconds(plan.replicas[replica], stage, shape, kind)
    if not 0.0 <= seconds < math.inf:
        duration(seconds, f"cost model: the {kind} of {shape} on stage {stage} of replica {replica}")
    return seconds


def _transfer_seconds(plan: DeploymentPlan, replica: int, shape: Shape, cost: CostModel) -> float:
    seconds = cost.transfer_seconds(plan, replica, shape)
    if not 0.0 <= seconds < math.inf:
        duration(seconds, f"cost model: the transfer of {shape} in replica {replica}")
    return seconds


def _disturb(
    forward: list[list[float]], backward: list[list[float]], step: int, replica: int, noise: Noise, *, before: int
) -> None:
    slowdown = noise.slowdown(step, replica)
    for stage, (ahead, back) in enumerate(zip(forward, backward, strict=True)):
        factors = slowdown * noise.jitter(step, replica, stage, before + len(ahead))[before:]
        forward[stage] = [seconds * factor for seconds, factor in zip(ahead, factors[:, 0].tolist(), strict=True)]
        backward[stage] = [seconds * factor for seconds, factor in zip(back, factors[:, 1].tolist(), strict=True)]
