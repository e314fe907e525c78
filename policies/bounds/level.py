"""What no dispatch over pipelines can beat: the fluid, each sequence charged for the bubble its micro-batch causes.

A pipeline waits (stages - 1) times its longest micro-batch, its level; shorter ones cost more a sequence. Let t(b) be
the stage seconds of b sequences of a bucket, and let some dispatch end at T <= theta. On a machine of it with level x,

    sum_j n_j c_j(x) <= T - (stages - 1) x <= T (1 - (stages - 1) x / theta),  c_j(x) = min of t(b) / b over t(b) <= x,

because every micro-batch of it is within the level. Divided by the bracket, a sequence of bucket j weighs at least

    c_j(x) / (1 - (stages - 1) x / theta)  >=  c'_j = min over b of  t(b) / b / (1 - (stages - 1) t(b) / theta)

since the b that attains c_j(x) has t(b) <= x, and the bracket falls in x. Whatever level a machine chose, its n_j
satisfy sum_j n_j c'_j <= T: the fluid at prices c' ends no later, F(theta) <= T. So every dispatch ends after theta or
takes F(theta) at least, and min(theta, F(theta)) bounds it for any theta. F falls in theta; a few programs find where
the two meet. (A program with machines of every level side by side comes to the same: its levels do not bind.)

Micro-batches of more sequences than there are, or with stages * t(b) > theta, do not occur and are left out; so the
bound is above the fluid in starved batches even without pipelines. Cost: up to 16 programs of K J columns.
"""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Array
from lobra.errors import Infeasible
from lobra.rates import Loads
from policies.bounds.fluid import fluid_bound, priced_fluid
from policies.bounds.latency import latency_bound

ROUNDS = 16  # halvings: where few sequences make F jump, the two sides meet no sooner
CLOSE = 1e-5  # relative: the two sides have met


def level_bound(loads: Sequence[Loads], replicas: Sequence[int], counts: Array) -> float:
    """Seconds that no dispatch of these counts [J] over `replicas[k]` machines of each kind can beat; with bubbles.

    Bounds every dispatch by the exact evaluator; not a simulator, where ragged micro-batches in a good order wait for
    less than the closed form says. Never below the fluid without bubbles and the latency of a single sequence.
    """
    best = max(fluid_bound(loads, replicas, counts), latency_bound(loads, replicas, counts))
    theta, low, high = best, best, float("inf")
    for _ in range(ROUNDS if best > 0 else 0):
        seconds = _fluid(loads, replicas, counts, theta)
        best = max(best, min(theta, seconds))
        if seconds >= theta:
            low, high = theta, min(high, seconds)
        else:
            high = theta
        if high <= low * (1 + CLOSE):
            break
        theta = min((low + high) / 2, 2 * low)
    return best


def _fluid(loads: Sequence[Loads], replicas: Sequence[int], counts: Array, theta: float) -> float:
    """F(theta); infinity where no dispatch ends by theta."""
    each = np.stack([level_each(kind, counts, theta) for kind in loads])
    try:
        return priced_fluid(each, replicas, counts).bound
    except Infeasible:
        return float("inf")


def level_each(loads: Loads, counts: Array, theta: float) -> Array:
    """c': what a sequence of each bucket weighs at the least in a dispatch that ends by theta; float64 [J]."""
    waiting = loads.stages - 1
    if loads.longest is not None:
        left = 1 - waiting * loads.longest / theta
        fits = (loads.capacity > 0) & (left > 0)
        return np.where(fits, loads.each / max(left, 1e-9), np.inf)
    most = np.maximum(np.minimum(loads.capacity, counts), 1)
    bucket, first = np.repeat(np.arange(len(most)), most), np.cumsum(most) - most
    size = np.arange(len(bucket)) - first[bucket] + 1
    seconds = np.maximum(loads.floor, loads.fixed[bucket] + loads.each[bucket] * size)
    within = loads.stages * seconds <= theta * (1 + 1e-9)
    price = np.where(within, seconds / size / (1 - waiting * np.where(within, seconds, 0.0) / theta), np.inf)
    least: Array = np.minimum.reduceat(price, first)
    return np.where(loads.capacity > 0, np.maximum(least, 0.0), np.inf)
