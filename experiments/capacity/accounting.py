"""Who pays what: a bill in GPU seconds or dollars, divided among tenants by a named rule, to the last cent.

An interval in which tenants train, plan or move is theirs: its seconds on all GPUs are divided by their weights. What
is left is declared as idle and is nobody's. Rules differ in the weights only: useful tokens of a step (`tokens`), GPU
seconds of its sequences at their cheapest feasible shape (`work`), or Shapley values of the step's least cost
(`shapley`). Shares of an interval are rounded such that they add up to it; the bill is exact to 1e-9 relative.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from lobra.errors import BadInput

Rule = Literal["tokens", "work", "shapley"]
RULES: tuple[Rule, ...] = ("tokens", "work", "shapley")


class Weights(Protocol):
    """How a step's cost is divided."""

    def __call__(self, tenants: tuple[str, ...], /) -> Mapping[str, float]:
        """A weight for each of these tenants, 0 or more; only their proportions count."""


@dataclass(frozen=True, slots=True)
class Charged:
    """GPU seconds to be paid, and who was there."""

    tenants: tuple[str, ...]  # none: declared idle
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class Bill:
    """Shares and the declared idle sum to the total."""

    rule: Rule
    shares: tuple[tuple[str, float], ...]  # tenant, GPU seconds; by name
    idle: float  # GPU seconds in which no tenant was there
    total: float  # GPU seconds

    def dollars(self, per_gpu_hour: float) -> "DollarBill":
        """The same in money; BadInput where the price is none."""
        if not 0 <= per_gpu_hour < math.inf:
            raise BadInput(f"price is {per_gpu_hour} $ per GPU hour; it must be a finite number, 0 or more")
        rate = per_gpu_hour / 3600
        shares = tuple((name, seconds * rate) for name, seconds in self.shares)
        return DollarBill(self.rule, shares, self.idle * rate, self.total * rate)


@dataclass(frozen=True, slots=True)
class DollarBill:
    """A bill in money."""

    rule: Rule
    shares: tuple[tuple[str, float], ...]  # tenant, dollars
    idle: float
    total: float


def billed(charges: Iterable[Charged], weights: Weights, rule: Rule) -> Bill:
    """All charges divided; a tenant set's weights are asked for once."""
    if rule not in RULES:
        raise BadInput(f"accounting: rule is {rule!r}; choose {', '.join(RULES)}")
    by_set: dict[tuple[str, ...], list[float]] = {}
    for charge in charges:
        if not 0 <= charge.gpu_seconds < math.inf:
            raise BadInput(f"accounting: {charge.gpu_seconds} GPU seconds are charged; give a finite number, 0 or more")
        by_set.setdefault(tuple(sorted(charge.tenants)), []).append(charge.gpu_seconds)
    shares: dict[str, list[float]] = {}
    for tenants, amounts in by_set.items():
        if tenants:
            for name, amount in divided(math.fsum(amounts), weights(tenants), tenants).items():
                shares.setdefault(name, []).append(amount)
    idle = math.fsum(by_set.get((), ()))
    total = math.fsum(amount for amounts in by_set.values() for amount in amounts)
    return Bill(rule, tuple((name, math.fsum(shares[name])) for name in sorted(shares)), idle, total)


def divided(amount: float, weights: Mapping[str, float], tenants: Sequence[str]) -> dict[str, float]:
    """The amount in proportion to the weights; equal parts where all weights are 0."""
    for name in tenants:
        if not 0 <= weights[name] < math.inf:
            raise BadInput(f"accounting: the weight of tenant '{name}' is {weights[name]}; it must be 0 or more")
    largest = max(weights[name] for name in tenants)
    if largest == 0:
        return dict.fromkeys(tenants, amount / len(tenants))
    relative = {name: weights[name] / largest for name in tenants}
    total = math.fsum(relative.values())
    return {name: amount * relative[name] / total for name in tenants}


@dataclass(frozen=True, slots=True)
class Overcharge:
    """Somebody who would pay less elsewhere."""

    tenants: tuple[str, ...]  # one, or a coalition that would pay less by itself
    paid: float
    alone: float

    @property
    def share(self) -> float:
        """By how much more than alone: 0.43 is 43 %; infinity where alone costs nothing."""
        return self.paid / self.alone - 1 if self.alone > 0 else math.inf


def overcharged(shares: Mapping[str, float], alone: Mapping[str, float], close: float = 1e-9) -> tuple[Overcharge, ...]:
    """The core's first condition: who pays more than alone, the worst first; `close` is a relative tolerance."""
    found = [Overcharge((name,), paid, alone[name]) for name, paid in sorted(shares.items())]
    return tuple(sorted((each for each in found if each.paid > each.alone * (1 + close)), key=lambda each: -each.share))
