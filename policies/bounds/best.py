"""The best bound known of a dispatch problem, with its name: what a certificate quotes.

The level bound contains the fluid and the latency of a single sequence, so it decides unless machines are starved. The
configuration bound is looked for only where machines have few sequences: elsewhere it comes to the fluid, and it costs
most. Where two bounds agree, the simpler one is named: it holds for more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Array
from lobra.rates import Loads
from policies.bounds.configuration import configuration_bound
from policies.bounds.fluid import fluid_bound
from policies.bounds.latency import latency_bound
from policies.bounds.level import level_bound

FEW = 40  # sequences a machine up to which whole patterns are looked at: above, they come to the fluid
NEARLY = 1 + 1e-6  # relative: bounds that agree

EVALUATOR = "every dispatch, by the exact evaluator"
SIMULATOR = "every dispatch, by the exact evaluator and by a simulator"


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that nothing beats, the bound that says so, and what it bounds."""

    seconds: float
    name: str
    holds_for: str


def best_bound(
    loads: Sequence[Loads], replicas: Sequence[int], counts: Array, at_most: float = float("inf"), *, few: float = FEW
) -> Bound:
    """The greatest bound for these counts [J] over `replicas[k]` machines of each kind.

    `at_most`: seconds of a dispatch already known, above which no bound is looked for; `few`: sequences a machine up
    to which the configuration bound is tried. Where rows are packed, the batching's estimates are replaced by what a
    sequence adds at the least, so that the bound holds for the micro-batches that are formed.
    """
    certain = [_certain(kind) for kind in loads]
    pipelined = any(kind.stages > 1 and number > 0 for kind, number in zip(certain, replicas, strict=True))
    found = [
        Bound(fluid_bound(certain, replicas, counts), "fluid, without bubbles", SIMULATOR),
        Bound(latency_bound(certain, replicas, counts), "latency of a single sequence", EVALUATOR),
        Bound(level_bound(certain, replicas, counts), "fluid, with levels of bubbles", _holds_for(pipelined)),
    ]
    if 0 < np.sum(counts) <= few * sum(replicas):
        seconds = configuration_bound(certain, replicas, counts, at_most)
        found.append(Bound(seconds, "whole patterns of machines", _holds_for(pipelined)))
    best = max(bound.seconds for bound in found)
    return next(bound for bound in found if bound.seconds * NEARLY >= best)


def _holds_for(pipelined: bool) -> str:
    return EVALUATOR if pipelined else SIMULATOR


def _certain(loads: Loads) -> Loads:
    """What formed micro-batches cost at the least: exact where rows are padded; packed, no bubble is certain."""
    return loads if loads.least is None else replace(loads, each=loads.least, least=None, longest=0.0)
