"""Reserved against on demand: how many GPUs to reserve for a demand that comes and goes.

Reserved GPUs are paid for every hour, used or not; what is needed beyond them is taken on demand, by whole nodes. The
best number is where one more node would stand idle for the part of the time that its discount saves (the newsvendor's
quantile); it is found by trying every number of nodes, so steps of a node's size are exact. What it costs if demand
turns out otherwise is told as regret: the bill of this choice less that of the best one in hindsight.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from lobra.spec import positive

DAY_HOURS = 24
RESAMPLES = 999


@dataclass(frozen=True, slots=True)
class Demand:
    """GPUs that are needed, hour by hour; the mean of each hour."""

    gpus: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.gpus:
            raise BadInput("demand: it has no hour; give one at least")
        if not all(0 <= each < math.inf for each in self.gpus):
            raise BadInput("demand: GPUs must be finite numbers, 0 or more")

    @property
    def days(self) -> int:
        """Whole ones."""
        return len(self.gpus) // DAY_HOURS


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of a GPU hour, and the size of what is taken."""

    reserved: float
    on_demand: float
    gpus_per_node: int = 1

    def __post_init__(self) -> None:
        positive("mix", reserved=self.reserved, on_demand=self.on_demand, gpus_per_node=self.gpus_per_node)


@dataclass(frozen=True, slots=True)
class Mixed:
    """A choice and what comes of it."""

    reserved_gpus: int
    bill: float
    reserved_cost: float
    on_demand_cost: float
    idle_gpu_hours: float  # reserved and not used
    unmet_gpu_hours: float  # needed beyond the reserved ones: taken on demand, or not met where there is none

    @property
    def gpu_hours(self) -> tuple[float, float]:
        """Idle and unmet."""
        return self.idle_gpu_hours, self.unmet_gpu_hours


def demand_of(uses: Iterable[tuple[float, float, float]]) -> Demand:
    """From stretches (start, end, GPUs) in seconds that may overlap: GPUs in use, averaged over every hour."""
    found = [use for use in uses if use[1] > use[0]]
    if not found:
        raise BadInput("demand: nobody uses a GPU; give one job at least")
    if min(start for start, _, _ in found) < 0:
        raise BadInput("demand: a job begins before 0; shift the times")
    hours = math.ceil(max(end for _, end, _ in found) / 3600)
    used = np.zeros(hours + 1)  # GPU seconds
    change = np.zeros(hours + 1)  # GPUs that hold for whole hours
    for start, end, gpus in found:
        first, last = int(start // 3600), int(end // 3600)
        if first == last:
            used[first] += (end - start) * gpus
            continue
        used[first] += ((first + 1) * 3600 - start) * gpus
        used[last] += (end - last * 3600) * gpus
        change[first + 1] += gpus
        change[last] -= gpus
    return Demand(tuple((used / 3600 + np.cumsum(change))[:hours].clip(min=0.0).tolist()))


def mixed(demand: Demand, rates: Rates, reserved_gpus: int) -> Mixed:
    """The bill with so many reserved."""
    need = np.asarray(demand.gpus)
    beyond = np.maximum(0.0, need - reserved_gpus)
    taken = np.ceil(beyond / rates.gpus_per_node - 1e-9) * rates.gpus_per_node
    reserved = reserved_gpus * rates.reserved * len(need)
    extra = float(taken.sum()) * rates.on_demand
    idle = float(np.maximum(0.0, reserved_gpus - need).sum())
    return Mixed(reserved_gpus, reserved + extra, reserved, extra, idle, float(beyond.sum()))


def choices(demand: Demand, rates: Rates) -> tuple[Mixed, ...]:
    """Every whole number of nodes from none to the peak."""
    nodes = math.ceil(max(demand.gpus) / rates.gpus_per_node - 1e-9)
    return tuple(mixed(demand, rates, number * rates.gpus_per_node) for number in range(nodes + 1))


def best(demand: Demand, rates: Rates) -> Mixed:
    """The cheapest; of equals the one that reserves least."""
    return min(choices(demand, rates), key=lambda each: (each.bill, each.reserved_gpus))


def scaled(demand: Demand, factor: float) -> Demand:
    """The same hours with so much more or less needed."""
    positive("demand", factor=factor)
    return Demand(tuple(each * factor for each in demand.gpus))


def regret(demand: Demand, rates: Rates, reserved_gpus: int, factor: float) -> float:
    """What this choice costs more than the best one if demand is so many times as large."""
    turned_out = scaled(demand, factor)
    return mixed(turned_out, rates, reserved_gpus).bill - best(turned_out, rates).bill


def bill_interval(
    demand: Demand, rates: Rates, reserved_gpus: int, seed: int, level: float = 0.9
) -> tuple[float, float] | None:
    """Of the bill, days drawn anew with replacement; None with fewer than a week, which says little about others."""
    if demand.days < 7:  # workdays and week-ends
        return None
    days = np.asarray(demand.gpus[: demand.days * DAY_HOURS]).reshape(demand.days, DAY_HOURS)
    bills = _daily(days, rates, reserved_gpus)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x6D6978]))
    drawn = bills[rng.integers(0, len(bills), (RESAMPLES, len(bills)))].sum(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    rest = len(demand.gpus) / (demand.days * DAY_HOURS)
    return float(low) * rest, float(high) * rest


def _daily(days: Array, rates: Rates, reserved_gpus: int) -> Array:
    per_day: Sequence[float] = [mixed(Demand(tuple(day.tolist())), rates, reserved_gpus).bill for day in days]
    return np.asarray(per_day)
