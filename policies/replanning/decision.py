"""What re-planning weighs, and what came of it: the terms of a move, options, the decision with its reason."""

from dataclasses import dataclass
from math import inf

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan


@dataclass(frozen=True, slots=True)
class Terms:
    """When a move pays."""

    horizon: int = 1000  # steps until the tenants are expected to change again
    factor: float = 2.0  # a move must save this many times what it costs
    plays: int = 16  # plans played at most while looking between the running and the best new plan

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise BadInput(f"horizon is {self.horizon}; a move pays over at least 1 step")
        if not 0 <= self.factor < inf:
            raise BadInput(f"factor is {self.factor}; it must be a finite number, 0 or more")
        if self.plays < 0:
            raise BadInput(f"plays is {self.plays}; it counts played plans, 0 or more")


@dataclass(frozen=True, slots=True)
class Option:
    """A plan, what a step of it takes, and what it takes to get there."""

    plan: DeploymentPlan
    step_seconds: float
    moving_seconds: float

    def total(self, terms: Terms) -> float:
        """What is to be made small."""
        return terms.horizon * self.step_seconds + terms.factor * self.moving_seconds


@dataclass(frozen=True, slots=True)
class Decision:
    """What was found, and what to do."""

    stay: Option | None  # the running plan with these tenants; None where it cannot serve them
    impossible: str  # why it cannot; "" where it can
    fresh: Option  # the planner's best, as if nothing ran, in the places that move least
    chosen: Option
    terms: Terms

    @property
    def moves(self) -> bool:
        """Whether anything but the running plan was chosen."""
        return self.chosen is not self.stay

    @property
    def saved_seconds(self) -> float:
        """What a step of the best alternative saves against staying; 0 where staying is impossible."""
        return self.stay.step_seconds - self.alternative.step_seconds if self.stay is not None else 0.0

    @property
    def alternative(self) -> Option:
        """What staying is measured against: the plan moved to, or the best that was not worth it."""
        return self.chosen if self.moves else self.fresh

    def reason(self) -> str:
        """Why, in one line."""
        other, terms = self.alternative, self.terms
        name = other.plan.summary()
        if self.stay is None:
            return f"move to {name} in {other.moving_seconds:.2f} s: the running plan cannot go on: {self.impossible}"
        saved = self.saved_seconds
        if saved <= 0:
            return (
                f"stay: no plan was found whose steps are shorter than the running one's {self.stay.step_seconds:.3f} s"
            )
        gain = f"{name} saves {saved:.3f} s a step, {saved * terms.horizon:.1f} s over {terms.horizon} steps"
        price = f"{terms.factor:g} times the {other.moving_seconds:.2f} s of moving"
        if not self.moves:
            return f"stay: {gain}, no more than {price}"
        return f"move: {gain}, more than {price}; paid back after {other.moving_seconds / saved:.1f} steps"
