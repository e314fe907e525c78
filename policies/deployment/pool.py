"""The pool: plans worth playing, from the fluid's point of view.

The fluid charges a pipeline's bubble as if its longest micro-batch were a full one and knows no whole sequences, so its
ranking is good to a few per cent only. What is close to its optimum, and what is good for other reasons, is therefore
played before one is chosen. Counts are int [K], one of each kind of a table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lobra.batch import Array
from policies.deployment.rounds import Counts, Rounds, charged_seconds, rounds
from policies.deployment.sampled import deploy_sampled
from policies.deployment.tau import Fluid, deploy

ROUGH_GAP = 1e-2  # of programs that only suggest a plan to play
MAIN_KINDS = 4


def worth_playing(fluid: Fluid, by_batch: Array, found: Rounds) -> Iterator[Counts]:
    """The best round, its main kinds alone, pp = 1 alone, the other rounds, the optimum of the mean batch, and of each.

    The mean batch and single batches suggest plans that the sample average has no reason for: they know other lengths.
    """
    rough = replace(fluid, search=replace(fluid.search, relative_gap=ROUGH_GAP))
    yield found.counts[0]
    yield from _restricted(rough, _main_kinds(fluid, found.counts[0]), by_batch)
    yield from _restricted(rough, np.flatnonzero(fluid.prices.stages == 1).tolist(), by_batch)
    yield from found.counts[1:]
    upper = charged_seconds(fluid, found.counts[0], by_batch)
    if len(by_batch) > 1:
        mean = by_batch.mean(axis=0)
        outcomes = [deploy(rough, mean, float(upper.mean()))]
        for own, limit in zip(by_batch, upper, strict=True):
            outcomes.append(deploy_sampled(rough, own[None, :], np.array([limit]), np.array([limit])))
            yield from (outcome.counts for outcome in outcomes if outcome is not None)
            outcomes.clear()


def _main_kinds(fluid: Fluid, counts: Counts) -> list[int]:
    """The few kinds with most GPUs, and the one that holds most: fewer kinds leave larger groups to balance within."""
    gpus = fluid.prices.gpus * counts
    largest = max(np.flatnonzero(gpus).tolist(), key=lambda kind: fluid.prices.kinds[kind].budget)
    most = np.argsort(-gpus, kind="stable")[:MAIN_KINDS].tolist()
    return sorted({kind for kind in [*most, largest] if gpus[kind]})


def _restricted(fluid: Fluid, chosen: Sequence[int], by_batch: Array) -> Iterator[Counts]:
    """The optimum with these kinds alone, bubbles included, if there is one."""
    if not 0 < len(chosen) < len(fluid.prices.kinds):
        return
    found = rounds(replace(fluid, prices=fluid.prices.rows(chosen)), by_batch)
    if found is not None:
        numbers = dict(zip(chosen, found.counts[0], strict=True))
        yield tuple(numbers.get(kind, 0) for kind in range(len(fluid.prices.kinds)))
