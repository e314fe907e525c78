"""Spot nodes against nodes on demand: the expected bill, and how often nodes may be lost until spot does not pay.

Work of W seconds takes F W on nodes that are lost; spot pays where F times its price is below the price on demand. A
notice long enough for a checkpoint saves all but the notice, half a step and the restart; without one, work since the
last checkpoint is lost (`breaking`). Checkpoints are as far apart as suits the losses best (Daly), also under notice:
it may not come.
"""

import math
from dataclasses import dataclass, replace

from scipy.optimize import brentq

from experiments.capacity.breaking import expected_seconds
from experiments.capacity.reliability import Terms
from lobra.errors import BadInput

LONGEST = 1e12  # seconds between losses of a node: none in 30,000 years
NEVER = 1e6  # a factor that stands for work that is never finished


def factor(terms: Terms, nodes: int, step_seconds: float) -> float:
    """Expected wall seconds of a second of work on so many nodes."""
    breaking, interval = terms.breaking(nodes), terms.interval(nodes)
    if not 0 < terms.checkpoint_seconds <= terms.notice_seconds:
        return min(NEVER, expected_seconds(breaking, 1.0, interval))
    mean = breaking.mean_seconds
    if terms.restart_seconds > 10 * mean:
        return NEVER
    wasted = terms.notice_seconds + step_seconds / 2 + mean * math.expm1(terms.restart_seconds / mean)
    return min(NEVER, (1 + terms.checkpoint_seconds / interval) * (1 + wasted / mean))


@dataclass(frozen=True, slots=True)
class Expected:
    """Spot against on demand for the same work."""

    factor: float  # wall seconds of spot over those of nodes that are never lost
    spot: float  # money
    on_demand: float
    interval_seconds: float  # between checkpoints
    break_even_seconds: float | None  # between losses of a node; None: spot never pays

    @property
    def saves(self) -> float:
        """A part of the bill on demand; negative where spot is dearer."""
        return 1 - self.spot / self.on_demand


def expected(
    terms: Terms, nodes: int, *, work_gpu_seconds: float, step_seconds: float, spot: float, on_demand: float
) -> Expected:
    """For prices of a GPU hour; the bill on demand takes it that nothing fails."""
    if not (0 < spot < math.inf and 0 < on_demand < math.inf):
        raise BadInput(f"spot: prices are {spot} and {on_demand} per GPU hour; both must be finite numbers above 0")
    takes, hours = factor(terms, nodes, step_seconds), work_gpu_seconds / 3600
    even = break_even(terms, nodes, step_seconds, spot / on_demand)
    return Expected(takes, takes * hours * spot, hours * on_demand, terms.interval(nodes), even)


def break_even(terms: Terms, nodes: int, step_seconds: float, price_ratio: float) -> float | None:
    """Seconds between losses of a node at which both cost the same; below, on demand is cheaper."""

    def dearer(logarithm: float) -> float:
        mean = math.exp(logarithm)
        return factor(replace(terms, node_mean_seconds=mean), nodes, step_seconds) * price_ratio - 1

    if dearer(math.log(LONGEST)) >= 0:
        return None
    shortest = math.log(max(1e-3, step_seconds * nodes / 100))
    if dearer(shortest) <= 0:
        return math.exp(shortest)
    return math.exp(float(brentq(dearer, shortest, math.log(LONGEST), xtol=1e-9)))
