"""The best bound known of a dispatch problem, with its name: what a certificate quotes.

The level bound contains the fluid and the latency of a single sequence, so it decides unless machines are starved. The
configuration bound is looked for only where machines have few sequences: elsewhere it comes to the fluid, and it costs
most. A full step may have starved machines, too: those that alone hold its longest sequences. What bounds a part of a
step bounds the step, so the longest sequences are looked at by themselves then; measured on full steps of 70B, that
took what seemed a gap of 1.1 % to 0.05 %. Where two bounds agree, the simpler one is named: it holds for more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from lobra.batch import Array
from lobra.rates import Loads
from policies.bounds.configuration import configuration_bound
from policies.bounds.fluid import fluid_bound
from policies.bounds.latency import latency_bound
from policies.bounds.level import level_bound

FEW = 40  # sequences a machine up to which whole patterns are looked at: above, they come to the fluid
NEARLY = 1 + 1e-6  # relative: bounds that agree

EVALUATOR = "every dispatch by the formula with bubbles"
SIMULATOR = "every dispatch by the formula with bubbles and by a simulator"


FLUID = "fluid without bubbles"
LATENCY = "most awkward sequence alone"
LEVELS = "level program (a fluid that pays for its bubbles)"
PATTERNS = "configuration program (whole patterns of machines)"


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that nothing beats, the bound that says so, and what it bounds."""

    seconds: float
    name: str
    holds_for: str
    simulator_seconds: float  # what a simulator takes at the least: `seconds` where that bounds it, too

    def words(self, scope: str) -> str:
        """One line for people, as a certificate quotes it; scope: of which plans and batches."""
        beside = ""
        if self.simulator_seconds < self.seconds:
            beside = f"; a simulator, which may wait less, takes {self.simulator_seconds:.3f} s at least"
        return f"by the {self.name}, over {scope}: bounds {self.holds_for}{beside}"


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
    found = {FLUID: fluid_bound(certain, replicas, counts), LATENCY: latency_bound(certain, replicas, counts)}
    found[LEVELS] = level_bound(certain, replicas, counts)
    starved = _starved(certain, replicas, counts, few)
    if starved.any():
        found[PATTERNS] = configuration_bound(certain, replicas, starved, at_most)
    return strongest(found, pipelined=pipelined)


def _starved(loads: Sequence[Loads], replicas: Sequence[int], counts: Array, few: float) -> Array:
    """The counts [J] of as many buckets as have at most `few` a machine that holds any of them; 0 for the others.

    Those that the fewest machines hold come first: these are the longest.
    """
    holds = np.stack([loads_of.capacity > 0 for loads_of in loads])
    machines = np.array(replicas)
    holders = machines @ holds
    best = np.zeros_like(counts)
    for most in np.unique(holders).tolist():
        part = np.where(holders <= most, counts, 0)
        if part.sum() <= few * machines[holds[:, part > 0].any(axis=1)].sum():
            best = part
    return best


def strongest(found: Mapping[str, float], *, pipelined: bool) -> Bound:
    """The greatest of bounds by name, the fluid among them; of those that agree the first.

    Without pipelines all of them bound a simulator. With pipelines the fluid alone does: micro-batches in a good order
    wait for less than the formula says, and a sequence alone passes stages that are faster than the slowest.
    """
    best = max(found.values())
    name, seconds = next((name, seconds) for name, seconds in found.items() if seconds * NEARLY >= best)
    if not pipelined or name == FLUID:
        return Bound(seconds, name, SIMULATOR, seconds)
    return Bound(seconds, name, EVALUATOR, found[FLUID])


def mean_bound(bounds: Sequence[Bound]) -> Bound:
    """Of a step on average, from the bounds of several; one at least."""
    names = " or ".join(dict.fromkeys(bound.name for bound in bounds))
    holds_for = EVALUATOR if any(bound.holds_for == EVALUATOR for bound in bounds) else SIMULATOR
    seconds, simulated = (
        fmean(values) for values in zip(*((b.seconds, b.simulator_seconds) for b in bounds), strict=True)
    )
    return Bound(seconds, names, holds_for, simulated)


def _certain(loads: Loads) -> Loads:
    """What formed micro-batches cost at the least: exact where rows are padded; packed, no bubble is certain."""
    return loads if loads.least is None else replace(loads, each=loads.least, least=None, longest=0.0)
