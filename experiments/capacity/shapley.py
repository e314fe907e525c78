"""Shapley values and the core, exactly: every coalition is priced once, so 2^n prices for n tenants.

The Shapley value charges a tenant what it adds to the cost of those before it, on average over all orders (Shapley,
1953). It is the one rule that is efficient, symmetric, additive and free for those who add nothing. It need not lie in
the core: a coalition may pay more than by itself, which `blocking` finds. Limit: 12 tenants (4096 prices).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import factorial, fsum

from experiments.capacity.accounting import Overcharge
from lobra.errors import BadInput

LARGEST = 12  # tenants

Cost = Callable[[frozenset[str]], float]  # of a coalition; of none: 0


def coalition_costs(tenants: Sequence[str], cost: Cost) -> dict[frozenset[str], float]:
    """The cost of every coalition, the empty one 0."""
    if len(tenants) > LARGEST:
        raise BadInput(
            f"accounting: shapley prices every coalition of {len(tenants)} tenants; it is exact up to {LARGEST}, "
            "choose work or tokens"
        )
    costs = {frozenset[str](): 0.0}
    for size in range(1, len(tenants) + 1):
        for chosen in combinations(sorted(tenants), size):
            costs[frozenset(chosen)] = cost(frozenset(chosen))
    return costs


def shapley(tenants: Sequence[str], costs: Mapping[frozenset[str], float]) -> dict[str, float]:
    """What each adds on average; the sum is the cost of all."""
    count = len(tenants)
    chance = [factorial(size) * factorial(count - size - 1) / factorial(count) for size in range(count)]
    return {
        name: fsum(
            chance[len(others)] * (costs[others | {name}] - price)
            for others, price in costs.items()
            if name not in others
        )
        for name in sorted(tenants)
    }


def blocking(
    shares: Mapping[str, float], costs: Mapping[frozenset[str], float], close: float = 1e-9
) -> tuple[Overcharge, ...]:
    """Coalitions that pay more than by themselves, the worst first; none where the shares lie in the core."""
    found = [
        Overcharge(tuple(sorted(some)), fsum(shares[name] for name in some), price)
        for some, price in costs.items()
        if some
    ]
    outside = (each for each in found if each.paid > each.alone * (1 + close))
    return tuple(sorted(outside, key=lambda each: (-each.share, each.tenants)))
