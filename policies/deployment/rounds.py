"""Rounds: the deployment that is best on planning batches as a fluid, what bounds it, and how much of that is bubble.

The first program leaves bubbles out; its optimum is certified. Bubbles depend on the plan's own step times, so the
next ones charge them against times that a good plan should have, and again where it has others. The last one bounds
the fluid with bubbles for every plan: if a plan is better on average than U, then no batch s takes longer with it than
S U minus what the others take at the least, so charging bubbles against that time is below the truth. Cost: three or
four programs of K integers, and S of fractions.
"""

from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Array
from policies.deployment.sampled import NEAR, deploy_sampled, sampled_seconds
from policies.deployment.tau import Fluid, Outcome, ideal_seconds, most_of

CHARGED_ROUNDS = 3  # the time that bubbles are charged against seldom falls more than twice
GUESS = 1.1  # of the plan's time without bubbles: a first guess of its time with them
MUCH = 0.1  # a smaller error of that guess changes the cost of bubbles little

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    """Plans of all rounds, the fastest fluid with bubbles first, and what is known of every other plan."""

    counts: tuple[Counts, ...]
    relaxed: Outcome  # without bubbles: its bound is certified
    with_bubbles: float  # seconds that no plan of the fluid with the bubbles of full micro-batches beats
    least: Array  # float64 [S], seconds that no plan of the fluid beats in each batch


def rounds(fluid: Fluid, by_batch: Array) -> Rounds | None:
    """The rounds on these batches [S, J]; None where no plan of these kinds serves them and holds the longest sequence.

    Where a program ends at its limit without a plan, the best plan of one kind stands in for it.
    """
    known = single_kind(fluid, by_batch)
    expected = _alone(fluid, by_batch)
    relaxed = None if expected is None else _relaxed(fluid, by_batch, expected, known)
    if relaxed is None or expected is None:
        return None
    tried = [counts for counts in (relaxed.counts, known) if counts is not None]
    prices = fluid.prices
    if not np.any(prices.stages > 1):
        return Rounds(_sorted(fluid, by_batch, tried), relaxed, relaxed.bound_seconds, expected)
    free = sampled_seconds(prices, relaxed.counts, by_batch, bubbles=False)
    upper = np.maximum(GUESS * free, _awkward(fluid, by_batch))
    for _ in range(CHARGED_ROUNDS):
        upper = np.minimum(upper, charged_seconds(fluid, _sorted(fluid, by_batch, tried)[0], by_batch))
        outcome = deploy_sampled(fluid, by_batch, upper, upper)
        if outcome is None or outcome.counts in tried:
            break
        tried.append(outcome.counts)
        charged = charged_seconds(fluid, outcome.counts, by_batch)
        if abs(charged.mean() / upper.mean() - 1) < MUCH:
            break
        upper = charged
    known_seconds = charged_seconds(fluid, _sorted(fluid, by_batch, tried)[0], by_batch)
    upper = known_seconds.sum() - (expected.sum() - expected)
    last = deploy_sampled(fluid, by_batch, known_seconds, upper)
    if last is not None:
        tried.append(last.counts)
    with_bubbles = max(relaxed.bound_seconds, last.bound_seconds if last else 0.0)
    charged_bound = min(with_bubbles, float(known_seconds.mean()))
    return Rounds(_sorted(fluid, by_batch, tried), relaxed, charged_bound, expected)


def _relaxed(fluid: Fluid, by_batch: Array, expected: Array, known: Counts | None) -> Outcome | None:
    """The program without bubbles; where its search ends without a plan, a bound by fractions and the known plan."""
    outcome = deploy_sampled(fluid, by_batch, expected)
    if outcome is not None:
        seconds = sampled_seconds(fluid.prices, outcome.counts, by_batch, bubbles=False)
        if np.all(seconds <= expected * NEAR[-1]) or np.any(np.isinf(seconds)):  # inf: too few to share as it wants
            return outcome
        again = deploy_sampled(fluid, by_batch, seconds)  # few replicas, far from fractions: the tangents were coarse
        return outcome if again is None or again.bound_seconds < outcome.bound_seconds else again
    if known is None:
        return None
    bound = deploy_sampled(fluid, by_batch, expected, whole=False)
    return None if bound is None else replace(bound, counts=known, status="limit")


def charged_seconds(fluid: Fluid, counts: Counts, by_batch: Array) -> Array:
    """What bubbles are charged against: a plan's fluid times, or what the most awkward sequence takes alone; [S]."""
    seconds: Array = np.maximum(sampled_seconds(fluid.prices, counts, by_batch), _awkward(fluid, by_batch))
    return seconds


def _awkward(fluid: Fluid, by_batch: Array) -> Array:
    """What the most awkward sequence of each batch takes alone; [S]."""
    alone: Array = np.max(np.where(by_batch > 0, np.min(fluid.prices.alone, axis=0), 0.0), axis=1)
    return alone


def single_kind(fluid: Fluid, by_batch: Array) -> Counts | None:
    """The best plan of one kind that serves every batch: what any search must beat; None where there is none."""
    prices, total = fluid.prices, by_batch.sum(axis=0)
    most = [int(number) for number in most_of(fluid) * prices.units]
    served = np.all(np.isfinite(prices.each[:, total > 0]), axis=1)
    able = [k for k, number in enumerate(fluid.holders.tolist()) if most[k] and served[k] and most[k] >= number]
    if not able:
        return None
    best = min(able, key=lambda k: float(prices.each[k, total > 0] @ total[total > 0]) / most[k])
    return tuple(most[k] if k == best else 0 for k in range(len(most)))


def _alone(fluid: Fluid, by_batch: Array) -> Array | None:
    """Seconds of each batch at the least, by programs of fractions for it alone; [S]."""
    seconds = []
    for amounts in by_batch:
        ideal = np.array([ideal_seconds(fluid.prices, amounts, fluid.cluster.gpus)])
        outcome = deploy_sampled(fluid, amounts[None, :], 1.1 * ideal, whole=False)
        if outcome is None:
            return None
        seconds.append(outcome.bound_seconds)
    return np.array(seconds)


def _sorted(fluid: Fluid, by_batch: Array, tried: list[Counts]) -> tuple[Counts, ...]:
    """Each once, the fastest with bubbles first."""
    distinct = list(dict.fromkeys(tried))
    return tuple(sorted(distinct, key=lambda counts: float(sampled_seconds(fluid.prices, counts, by_batch).mean())))
