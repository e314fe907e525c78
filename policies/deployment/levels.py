"""What no plan beats, its pipelines' waiting included: the level program over all mixes of kinds.

In a dispatch that ends by theta, a sequence weighs what its share of a micro-batch costs divided by the part of theta
in which its pipeline does not wait for such a micro-batch (`policies.bounds.level`, which is about one plan). Those
weights depend on the kind alone, so the tau-MILP at these prices bounds every plan and dispatch that ends by theta, by
the exact evaluator, and needs no bubble term. Theta comes from a plan that is known: whichever is better than U on
average over S batches takes at most S U minus what the others take at the least, in any one of them. Above the fluid
without bubbles wherever pipelines pay for themselves, and in starved batches. It does not bound a simulator, where
ragged micro-batches in a good order wait for less. Cost: one more program of K integers.

Shapes: K kinds, J classes, S batches.
"""

from dataclasses import replace

import numpy as np

from lobra.batch import Array
from policies.bounds.level import level_each
from policies.deployment.classes import Table
from policies.deployment.sampled import deploy_sampled
from policies.deployment.tau import Fluid, Outcome


def level_outcome(fluid: Fluid, by_batch: Array, known: float, least: Array) -> Outcome | None:
    """The bound for all plans of these kinds that need less than `known` seconds on average; None where none is found.

    fluid: of all kinds, dominated ones too, at prices that are certain. least: seconds of each batch that no plan
    beats, [S]. A plan that is not faster than `known` is above it, so the bound is the smaller of the two.
    """
    theta = np.maximum(len(by_batch) * known - (least.sum() - least), least) * (1 + 1e-9)
    each = level_prices(fluid.prices, by_batch, theta)
    kept = _undominated(fluid, each)
    expected = np.maximum(least, least * (known / least.mean()))
    outcome = deploy_sampled(replace(fluid, prices=fluid.prices.rows(kept)), by_batch, expected, prices=each[:, kept])
    return None if outcome is None else replace(outcome, bound_seconds=min(outcome.bound_seconds, known))


def level_prices(prices: Table, by_batch: Array, theta: Array) -> Array:
    """What a sequence weighs at the least in each batch, if that ends by theta [S]; float64 [S, K, J]."""
    counts = np.maximum(by_batch.astype(np.int64), 1)
    return np.stack(
        [
            np.stack([level_each(loads, amounts, float(end)) for loads in prices.loads])
            for amounts, end in zip(counts, theta, strict=True)
        ]
    )


def _undominated(fluid: Fluid, each: Array) -> list[int]:
    """Kinds that no other replaces at no loss in this program: on the same GPUs, for no more of their time."""
    prices, holders = fluid.prices, fluid.holders
    gpus = prices.gpus * prices.units
    work = each * prices.gpus[:, None]
    kept: list[int] = []
    for i, kind in enumerate(prices.kinds):
        replaced = any(
            k != i
            and gpus[i] % gpus[k] == 0
            and kind.config.tp % other.config.tp == 0
            and prices.gpus[k] * holders[k] <= prices.gpus[i] * holders[i]
            and bool(np.all(work[:, k] <= work[:, i]))
            and (k < i or bool(np.any(work[:, k] < work[:, i])) or gpus[k] < gpus[i])
            for k, other in enumerate(prices.kinds)
        )
        if not replaced:
            kept.append(i)
    return kept
