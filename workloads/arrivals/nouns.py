"""What an arrival is: a tenant, a time, a budget of training, and what it was promised."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lobra.errors import BadInput
from lobra.spec import Tenant

BudgetUnit = Literal["steps", "tokens", "epochs"]


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a tenant trains before it leaves."""

    amount: float
    unit: BudgetUnit = "steps"

    def __post_init__(self) -> None:
        if self.unit not in ("steps", "tokens", "epochs"):
            raise BadInput(f"budget: unit is {self.unit!r}; choose steps, tokens or epochs")
        if not 0 < self.amount < math.inf:
            raise BadInput(f"budget: {self.unit} is {self.amount}; it must be a finite number above 0")

    def steps(self, batch_size: int, step_tokens: float, sequences: int | None = None) -> int:
        """Whole optimiser steps that use it up, the last one rounded up.

        `step_tokens`: useful tokens that a step of this tenant has on average; `sequences`: of its data set, None where
        its stream has no end, in which case a budget in epochs is refused.
        """
        if self.unit == "steps":
            return math.ceil(self.amount)
        if self.unit == "tokens":
            if not step_tokens > 0:
                raise BadInput(f"budget: {self.amount:g} tokens, but a step brings {step_tokens}; give steps instead")
            return math.ceil(self.amount / step_tokens)
        if sequences is None:
            raise BadInput("budget: epochs of a tenant whose data have no end; give steps or tokens, or a data set")
        return math.ceil(self.amount * sequences / batch_size)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One tenant on its way in."""

    tenant: Tenant
    at_seconds: float  # since the beginning
    budget: Budget
    deadline_seconds: float | None = None  # after its arrival; None: none was promised
    priority: float = 0.0  # the larger goes first
    owner: str = ""  # who pays, where one owner sends several tenants; "": the tenant itself
    kind: str = ""  # which offer it was made from: tenants of one kind draw from the same lengths

    def __post_init__(self) -> None:
        who = f"arrival of '{self.tenant.name}'"
        if not 0 <= self.at_seconds < math.inf:
            raise BadInput(f"{who}: at_seconds is {self.at_seconds}; it must be a finite number, 0 or more")
        if self.deadline_seconds is not None and not 0 < self.deadline_seconds < math.inf:
            raise BadInput(f"{who}: deadline_seconds is {self.deadline_seconds}; it counts seconds after the arrival")
        if not math.isfinite(self.priority):
            raise BadInput(f"{who}: priority is {self.priority}; it must be a finite number")


@dataclass(frozen=True, slots=True)
class Offer:
    """A kind of tenant that may come again and again: what generators and traces draw from."""

    tenant: Tenant  # its name is the kind; those who come are called name-0000, name-0001, ...
    budget: Budget
    weight: float = 1.0  # how often it comes, against the others
    budget_sigma: float = 0.0  # of the logarithm: budgets vary log-normally about the given median
    deadline_seconds: float | None = None
    priority: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise BadInput(f"offer '{self.tenant.name}': weight is {self.weight}; it must be a finite number above 0")
        if not 0 <= self.budget_sigma < math.inf:
            raise BadInput(f"offer '{self.tenant.name}': budget_sigma is {self.budget_sigma}; it must be 0 or more")


def ordered(arrivals: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """By time, equal times in the order given; BadInput where two names clash."""
    check_names(arrival.tenant.name for arrival in arrivals)
    return tuple(sorted(arrivals, key=lambda arrival: arrival.at_seconds))


def check_names(names: Iterable[str], what: str = "tenants") -> None:
    """Refuse a name that stands twice and names that differ by case alone: a bill or a folder would mix them up."""
    seen: dict[str, str] = {}
    for name in names:
        before = seen.get(name.casefold())
        if before == name:
            raise BadInput(f"{what}: the name '{name}' stands twice; names must differ")
        if before is not None:
            raise BadInput(f"{what}: the names '{before}' and '{name}' differ by case alone; rename one")
        seen[name.casefold()] = name
