"""The strongest bound of a planner's problem, in the words of its certificate: which it is, and what it bounds.

Three are compared: the fluid without bubbles (a program over all mixes of kinds), the most awkward sequence by itself,
and the level program, which charges every sequence for the bubble that its micro-batch causes. Where pipelines are
among the kinds, the first alone bounds a simulator at the same prices, the others the formula with bubbles. Whole
patterns of machines are left to given plans: over all mixes they would cost minutes.
"""

import numpy as np

from policies.bounds.best import FLUID, LATENCY, LEVELS, Bound, strongest
from policies.deployment.classes import Classes, awkward_seconds
from policies.deployment.levels import level_outcome
from policies.deployment.rounds import Rounds
from policies.deployment.tau import Fluid, Outcome

ENOUGH = 1 + 1e-3  # a plan so close to the fluid needs no stronger proof


def proof(
    every: Fluid, classes: Classes, relaxed: Outcome | None, found: Rounds | None, *, known: float, levels: bool
) -> tuple[Bound, Outcome | None]:
    """The strongest of the three for a plan that takes `known` seconds, and the program that said so, if one did.

    every: all kinds, dominated ones too, at prices that are certain; relaxed: the fluid without bubbles; levels: try
    the level program, which knows no groups that share and no packed rows.
    """
    alone = awkward_seconds(np.min(every.prices.alone, axis=0), classes.by_batch)
    seconds = {FLUID: relaxed.bound_seconds if relaxed else 0.0, LATENCY: alone}
    said = relaxed
    if levels and found is not None and known > max(seconds.values()) * ENOUGH:
        charged = level_outcome(every, classes.by_batch, known, found.least)
        if charged is not None:
            seconds[LEVELS], said = charged.bound_seconds, charged
    best = strongest(seconds, pipelined=bool(np.any(every.prices.stages > 1)))
    return best, said if best.name == LEVELS else relaxed
