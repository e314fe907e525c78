"""The same cost model with other coefficients: what a plan must withstand if the prices are somewhat wrong.

Every coefficient of every tensor-parallel size gets a factor of its own (floor, fixed part, run, token, square; of the
paper's form its six), so do pipeline transfers and the gradient synchronisation. Memory stays as it is: what fits is no
coefficient. A cost model of an unknown form gets one factor a tensor-parallel size.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from costmodel.paper import PaperCost
from costmodel.scaled import COEFFICIENTS, Layered, Scaled, floor_form, with_factors
from lobra.errors import BadInput
from lobra.protocols import CostModel

Law = Literal["uniform", "lognormal"]
Factor = Callable[[], float]
_STREAM = 0x9E57  # keeps these streams apart from others of the same seed


def perturbed(cost: CostModel, spread: float, *, law: Law = "uniform", seed: int = 0, draw: int = 0) -> CostModel:
    """The draw-th of a seed's cost models; a function of its arguments alone.

    spread: uniform factors lie in 1 - spread .. 1 + spread; log-normal ones have this standard deviation of their
    logarithm, and median 1. With spread 0 every answer is the same to the last bit.
    """
    check_spread(spread, law)
    if seed < 0 or draw < 0:
        raise BadInput(f"regret: seed {seed} and draw {draw} must not be negative")
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM, draw)))

    def factor() -> float:
        drawn = float(generator.uniform(-1.0, 1.0) if law == "uniform" else generator.standard_normal())
        return 1.0 + spread * drawn if law == "uniform" else float(np.exp(spread * drawn))

    transfer, synchronise = factor(), factor()
    inner, stages = _with_other_coefficients(cost, factor)
    return Scaled(inner, stages, transfer, synchronise, "coefficients perturbed")


def check_spread(spread: float, law: str) -> None:
    """Refuse a law that there is not, and a spread that could make a price zero or infinite."""
    if law not in ("uniform", "lognormal"):
        raise BadInput(f"regret: law is {law!r}; choose uniform or lognormal")
    if not 0 <= spread < (1.0 if law == "uniform" else float("inf")):
        limit = "in [0, 1), so that no price becomes zero" if law == "uniform" else "a finite number, 0 or more"
        raise BadInput(f"regret: the spread is {spread}; with law {law} it must be {limit}")


def _with_other_coefficients(cost: CostModel, factor: Factor) -> tuple[CostModel, dict[int | tuple[int, int], float]]:
    """The model with its own coefficients changed; or, of an unknown form, factors of its stage seconds by tp."""
    if isinstance(cost, PaperCost):
        changed = {}
        for tp in sorted(cost.coefficients):
            c1, c2, c3, c4, c5, c6 = (value * factor() for value in cost.coefficients[tp])
            changed[tp] = (c1, c2, c3, c4, c5, c6)
        return replace(cost, coefficients=changed), {}
    if isinstance(cost, Layered):
        tps = sorted({tp for tp, _, _ in floor_form(cost).prices})
        return with_factors(cost, {tp: {name: factor() for name in COEFFICIENTS} for tp in tps}), {}
    return cost, {tp: factor() for tp in sorted({config.tp for config in cost.configs()})}
