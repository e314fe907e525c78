"""What no dispatch can beat that may let equal replicas share micro-batches, in several group sizes a step.

A micro-batch that c replicas of a kind compute together takes W seconds of each, c W in all; a replica does what it
shares and what it computes alone one after another. So the p replicas of a kind have p T seconds for all of it,

    sum over sizes c and classes j of c W[c, j] n[c, j] <= p T,

and in the fluid a kind serves each class at its cheapest size: the fluid program at prices min over c of c W[c, j].
This holds however groups overlap. It also holds for theta instead of infinity: a dispatch ends after theta, or uses no
size at which a sequence alone takes longer; min(theta, F(theta)) bounds it for every theta, as in `level`. Groups are
priced without pipelines' bubbles. Cost: a linear program of K J columns a round, whatever the number of sizes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Array
from lobra.errors import Infeasible
from lobra.rates import Loads
from policies.bounds.fluid import Flow, least_each, priced_fluid

ROUNDS = 8
CLOSE = 1e-3  # relative: theta and F(theta) have met

Sizes = Sequence[Mapping[int, Loads]]  # of each kind: what micro-batches cost by the number of replicas that share them


@dataclass(frozen=True, slots=True, eq=False)
class SharedFluid:
    """The fluid's optimum, how it flows, and in which sizes; K kinds, J classes."""

    bound: float  # seconds that no dispatch with groups of these sizes beats, if the loads are certain
    seconds: float  # of the flow
    flow: Array  # float64 [K, J]
    size: Array  # int64 [K, J], replicas that share a class on a kind; 0: it does not fit


def sharing_bound(sizes: Sizes, replicas: Sequence[int], counts: Array) -> float:
    """Seconds that no dispatch of these counts [J] over `replicas[k]` of each kind, in groups of these sizes, beats."""
    certain = [{size: _certain(loads) for size, loads in kind.items()} for kind in sizes]
    return shared_fluid(certain, replicas, counts).bound


def shared_fluid(sizes: Sizes, replicas: Sequence[int], counts: Array) -> SharedFluid:
    """The fluid in which no sequence by itself takes much longer than the step; Infeasible where one fits nowhere."""
    found, size = _fluid(sizes, replicas, counts, np.inf)
    best = SharedFluid(max(found.bound, _latency(sizes, replicas, counts)), found.seconds, found.flow, size)
    theta, low, high = best.bound, best.bound, np.inf
    for _ in range(ROUNDS if best.bound > 0 else 0):
        try:
            found, size = _fluid(sizes, replicas, counts, theta * (1 + 1e-9))
        except Infeasible:
            makespan = np.inf
            best = replace(best, bound=max(best.bound, theta))
        else:
            makespan = found.seconds
            best = SharedFluid(max(best.bound, min(theta, found.bound)), makespan, found.flow, size)
        if makespan > theta:
            low, high = theta, min(high, makespan)
        else:
            high = theta
        if high <= low * (1 + CLOSE):
            break
        theta = min((low + high) / 2, 2 * low)
    return best


def _fluid(sizes: Sizes, replicas: Sequence[int], counts: Array, theta: float) -> tuple[Flow, Array]:
    """F(theta) with its flow, and the cheapest sizes; Infeasible where a sequence takes longer alone everywhere."""
    each = np.full((len(sizes), len(counts)), np.inf)
    size = np.zeros(each.shape, dtype=np.int64)
    for kind, by_size in enumerate(sizes):
        for number, loads in sorted(by_size.items()):
            price = np.where(_alone(loads) <= theta, number * least_each(loads), np.inf)
            cheaper = price < each[kind]
            each[kind, cheaper], size[kind, cheaper] = price[cheaper], number
    return priced_fluid(each, replicas, counts), size


def _latency(sizes: Sizes, replicas: Sequence[int], counts: Array) -> float:
    """Seconds of the most awkward sequence alone, in the group of the kind that suits it best."""
    least = np.full(len(counts), np.inf)
    for by_size, number in zip(sizes, replicas, strict=True):
        for loads in by_size.values() if number else ():
            least = np.minimum(least, _alone(loads))
    return float(np.max(np.where(counts > 0, least, 0.0), initial=0.0))


def _alone(loads: Loads) -> Array:
    """Seconds of a micro-batch of one sequence of each class on one stage; infinity where it does not fit."""
    return np.where(loads.capacity > 0, np.maximum(loads.floor, loads.fixed + loads.each), np.inf)


def _certain(loads: Loads) -> Loads:
    return loads if loads.least is None else replace(loads, each=loads.least, least=None)
