"""The pool: plans worth playing, from the fluid's point of view.

The fluid charges a pipeline's bubble as if its longest micro-batch were a full one and knows no whole sequences, so its
ranking is good to a few per cent only. What is close to its optimum, and what is good for other reasons, is therefore
played before one is chosen. Counts are int [K], one of each kind of a table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from math import lcm

import numpy as np

from lobra.batch import Array
from policies.deployment.classes import Classes, Table, awkward_seconds
from policies.deployment.tau import Fluid, Outcome, deploy, fluid_seconds

ROUGH_GAP = 1e-2  # of programs that only suggest a plan to play
MAIN_KINDS = 4
ROUNDS = 4  # the first leaves bubbles out; the time that they are charged against seldom falls more than twice

Counts = tuple[int, ...]


def bubble_rounds(fluid: Fluid, amounts: Array) -> tuple[Outcome, ...]:
    """The fluid optimum without bubbles, then with bubbles charged against the best time so far, until that stays."""
    outcomes: list[Outcome] = []
    upper = np.inf
    for _ in range(ROUNDS):
        outcome = deploy(fluid, amounts, upper)
        if outcome is None:
            break
        outcomes.append(outcome)
        seconds = upper_seconds(fluid.prices, outcome.counts, amounts)
        if seconds >= upper * (1 - fluid.search.relative_gap):
            break
        upper = seconds
    return tuple(outcomes)


def upper_seconds(prices: Table, counts: Counts, amounts: Array) -> float:
    """What bubbles are charged against: the plan's fluid time, at least what the most awkward sequence takes alone."""
    return max(fluid_seconds(prices, counts, amounts), awkward_seconds(np.min(prices.alone, axis=0), amounts[None, :]))


def worth_playing(fluid: Fluid, classes: Classes, rounds: tuple[Outcome, ...]) -> Iterator[Counts]:
    """The last round, its main kinds alone, pp = 1 alone, the other rounds, the optimum of each batch by itself."""
    amounts = classes.counts
    if rounds:
        yield rounds[-1].counts
        yield from _restricted(fluid, _main_kinds(fluid, rounds[-1].counts), amounts)
    yield from _restricted(fluid, np.flatnonzero(fluid.prices.stages == 1).tolist(), amounts)
    yield from (outcome.counts for outcome in reversed(rounds[:-1]))
    if len(classes.by_batch) > 1:
        counts = rounds[-1].counts if rounds else None
        rough = replace(fluid, search=replace(fluid.search, relative_gap=ROUGH_GAP))
        for own in classes.by_batch:
            upper = upper_seconds(fluid.prices, counts, own) if counts else np.inf
            outcome = deploy(rough, own, upper)
            if outcome is not None:
                yield outcome.counts


def _main_kinds(fluid: Fluid, counts: Counts) -> list[int]:
    """The few kinds with most GPUs, and the one that holds most: fewer kinds leave larger groups to balance within."""
    gpus = fluid.prices.gpus * counts
    largest = max(np.flatnonzero(gpus).tolist(), key=lambda kind: fluid.prices.kinds[kind].budget)
    most = np.argsort(-gpus, kind="stable")[:MAIN_KINDS].tolist()
    return sorted({kind for kind in [*most, largest] if gpus[kind]})


def _restricted(fluid: Fluid, chosen: Sequence[int], amounts: Array) -> Iterator[Counts]:
    """The optimum with these kinds alone, bubbles included, if there is one."""
    if not 0 < len(chosen) < len(fluid.prices.kinds):
        return
    for outcome in bubble_rounds(replace(fluid, prices=fluid.prices.rows(chosen)), amounts)[-1:]:
        found = dict(zip(chosen, outcome.counts, strict=True))
        yield tuple(found.get(kind, 0) for kind in range(len(fluid.prices.kinds)))


def exchanges(fluid: Fluid, counts: Counts, amounts: Array, at_most: float) -> list[Counts]:
    """Neighbours of a plan, fastest fluid first: the fewest replicas of one kind give their GPUs to another kind.

    Only those that hold the longest sequence, and whose fluid without bubbles is faster than `at_most` seconds.
    """
    prices, gpus = fluid.prices, fluid.prices.gpus.tolist()
    found = []
    for giver, taker in permutations(range(len(counts)), 2):
        moved = lcm(gpus[giver], gpus[taker])
        if counts[giver] * gpus[giver] < moved:
            continue
        changed = list(counts)
        changed[giver] -= moved // gpus[giver]
        changed[taker] += moved // gpus[taker]
        holds = any(number and kind.budget >= fluid.longest for number, kind in zip(changed, prices.kinds, strict=True))
        if holds and fluid_seconds(prices, changed, amounts, bubbles=False) < at_most:
            found.append((fluid_seconds(prices, changed, amounts), tuple(changed)))
    return [neighbour for _, neighbour in sorted(found)]
