"""Arrivals drawn from laws: Poisson or log-normal bursts in time, offers in kind; every draw from a seeded stream.

Gaps of a Poisson process are exponential, coefficient of variation 1. Gaps in shared clusters are far burstier: on the
Philly trace of deep-learning jobs (Jeon et al., ATC 2019) half of them are below 8 s while the mean is 114 s,
coefficient of variation 15. A log-normal gap has any such coefficient. Times, kinds and budgets come from streams of
their own, so that a longer horizon only adds arrivals and changes none before.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from workloads.arrivals.nouns import Arrival, Budget, Offer, check_names

BLOCK = 256  # gaps drawn at once; a block's draws do not depend on the horizon
LARGEST = 1_000_000  # arrivals; more than any question here needs

Gaps = Callable[[np.random.Generator], Array]  # a block of gaps in seconds


def poisson_times(per_hour: float, horizon_seconds: float, seed: int) -> Array:
    """Ascending seconds in [0, horizon) of a Poisson process; float64 [n]."""
    mean = _mean_gap(per_hour, horizon_seconds, seed)
    return _until(horizon_seconds, _generator(seed, "times"), lambda rng: rng.exponential(mean, BLOCK))


def burst_times(per_hour: float, horizon_seconds: float, seed: int, variation: float = 5.0) -> Array:
    """The same for log-normal gaps of this coefficient of variation (standard deviation over mean); float64 [n]."""
    mean = _mean_gap(per_hour, horizon_seconds, seed)
    if not 0 < variation < math.inf:
        raise BadInput(f"arrivals: variation is {variation}; it must be a finite number above 0")
    sigma = math.sqrt(math.log1p(variation**2))
    mu = math.log(mean) - sigma**2 / 2
    return _until(horizon_seconds, _generator(seed, "times"), lambda rng: rng.lognormal(mu, sigma, BLOCK))


def drawn(times: Array, offers: Sequence[Offer], seed: int) -> tuple[Arrival, ...]:
    """One arrival at each time, its offer drawn by weight, its budget about the offer's median."""
    if not offers:
        raise BadInput("arrivals: there is no offer; give at least one kind of tenant")
    check_names((offer.tenant.name for offer in offers), "offers")
    weights = np.array([offer.weight for offer in offers])
    kinds = np.searchsorted(np.cumsum(weights / weights.sum()), _generator(seed, "kinds").random(len(times)), "right")
    normal = _generator(seed, "budgets").standard_normal(len(times))
    made = []
    for number, (time, kind, deviate) in enumerate(zip(times.tolist(), kinds.tolist(), normal.tolist(), strict=True)):
        offer = offers[min(kind, len(offers) - 1)]
        budget = replace(offer.budget, amount=offer.budget.amount * math.exp(offer.budget_sigma * deviate))
        made.append(arrival_of(offer, number, time, budget))
    return tuple(made)


def arrival_of(offer: Offer, number: int, at_seconds: float, budget: Budget, owner: str = "") -> Arrival:
    """The number-th arrival, of this offer, under a name of its own."""
    name = f"{offer.tenant.name}-{number:04d}"
    return Arrival(
        replace(offer.tenant, name=name),
        at_seconds,
        budget,
        offer.deadline_seconds,
        offer.priority,
        owner or name,
        offer.tenant.name,
    )


def _mean_gap(per_hour: float, horizon_seconds: float, seed: int) -> float:
    if not 0 < per_hour < math.inf:
        raise BadInput(f"arrivals: per_hour is {per_hour}; it must be a finite number above 0")
    if not 0 < horizon_seconds < math.inf:
        raise BadInput(f"arrivals: horizon_seconds is {horizon_seconds}; it must be a finite number above 0")
    if seed < 0:
        raise BadInput(f"arrivals: seed is {seed}; it must not be negative")
    if per_hour * horizon_seconds / 3600 > LARGEST:
        raise BadInput(
            f"arrivals: {per_hour:g} an hour for {horizon_seconds:g} s are more than {LARGEST}; ask for less"
        )
    return 3600 / per_hour


def _generator(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(f"arrivals {purpose}".encode())]))


def _until(horizon: float, generator: np.random.Generator, gaps: Gaps) -> Array:
    """Sums of gaps below the horizon, block by block."""
    blocks, start, count = [], 0.0, 0
    while start < horizon:
        times = start + np.cumsum(gaps(generator))
        blocks.append(times[times < horizon])
        start, count = float(times[-1]), count + len(blocks[-1])
        if count > 2 * LARGEST:
            raise BadInput(f"arrivals: more than {2 * LARGEST}; ask for a shorter horizon or fewer an hour")
    return np.concatenate(blocks)
