"""Two figures of a cost model moved on purpose: what every layer costs at least, and how well tensor parallelism cuts.

They are the figures of which nobody knows a value for hardware that was not profiled, and on which answers may hang. A
sensitivity study turns them; 1 leaves both as they are priced. Messages are part of what a tensor-parallel group takes,
so they move with it.
"""

import math
from dataclasses import replace

from costmodel.fitted import FittedCost
from costmodel.knotted import KnottedCost
from costmodel.layered import LayeredCost
from costmodel.scaled import Layered, floor_form, with_factors
from lobra.errors import BadInput
from lobra.protocols import CostModel

LARGEST = 100.0  # of a factor; beyond it nothing is learnt


def with_levers(cost: CostModel, launch: float = 1.0, tensor_efficiency: float = 1.0) -> CostModel:
    """The same prices with these two moved, in the planner's and the simulator's view alike.

    launch: how many times their price a layer's floor and fixed part cost. tensor_efficiency: what share of its speed a
    tensor-parallel group keeps at every doubling, beside what is priced: 0.9 makes tokens, attention and runs on tp 8
    take 1 / 0.9^3 times as long. BadInput for figures that are none, and for a cost model without such coefficients.
    """
    _check("launch", launch)
    _check("tensor_efficiency", tensor_efficiency)
    if launch == 1.0 and tensor_efficiency == 1.0:
        return cost
    if not isinstance(cost, Layered):
        raise BadInput(
            "launch and tensor_efficiency move coefficients of a layer, which this form has not; leave them at 1, or "
            "use form=roofline or form=auto"
        )
    factors = {}
    for tp in sorted({key[0] for key in floor_form(cost).prices}):
        slower = tensor_efficiency ** -math.log2(tp)
        factors[tp] = {"floor": launch, "fixed": launch, "run": slower, "token": slower, "square": slower}
    note = f"moved on purpose: launches {launch:g} times, tensor efficiency {tensor_efficiency:g} a doubling"
    return _noted(with_factors(cost, factors), note)


def _check(name: str, value: float) -> None:
    if not 1 / LARGEST <= value <= LARGEST:
        raise BadInput(f"{name} is {value}; give a factor from {1 / LARGEST:g} to {LARGEST:g}, 1 to leave it")


def _noted(cost: Layered, note: str) -> Layered:
    """With a note beside its evidence."""
    if isinstance(cost, KnottedCost):
        return replace(cost, planned=_noted_plan(cost.planned, note))
    return _noted_plan(cost, note)


def _noted_plan(cost: LayeredCost | FittedCost, note: str) -> LayeredCost | FittedCost:
    if isinstance(cost, FittedCost):
        return replace(cost, layered=_noted_layers(cost.layered, note))
    return _noted_layers(cost, note)


def _noted_layers(cost: LayeredCost, note: str) -> LayeredCost:
    return replace(cost, evidence=replace(cost.evidence, notes=(*cost.evidence.notes, note)))
