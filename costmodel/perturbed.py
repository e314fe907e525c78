"""The same cost model with other coefficients: what a plan must withstand if the prices are somewhat wrong.

Every coefficient of every tensor-parallel size gets a factor of its own (floor, fixed part, run, token, square; of the
paper's form its six), so do pipeline transfers and the gradient synchronisation. Memory stays as it is: what fits is no
coefficient. A cost model of an unknown form gets one factor a tensor-parallel size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Literal

import numpy as np

from costmodel.fitted import FittedCost
from costmodel.layered import LayeredCost
from costmodel.paper import PaperCost
from lobra.batch import Array, frozen
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.protocols import CostModel
from lobra.rates import PackRates, Provenance, Rates
from lobra.spec import Tenant

Law = Literal["uniform", "lognormal"]
Factor = Callable[[], float]
_STREAM = 0x9E57  # keeps these streams apart from others of the same seed


@dataclass(frozen=True, slots=True)
class Perturbed:
    """Another cost model's answers times factors; a `lobra.protocols.CostModel`."""

    cost: CostModel
    stages: Mapping[int, float]  # of stage seconds, by tp; 1 where there is none
    transfer: float
    synchronise: float

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price."""
        return self.cost.configs()

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold: unchanged."""
        return self.cost.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of micro-batches of these widths."""
        rates, factor = self.cost.rates(config, widths, shards), self.stages.get(config.tp, 1.0)
        if factor == 1.0:
            return rates
        return Rates(
            rates.floor * factor,
            frozen(rates.fixed * factor, np.float64),
            frozen(rates.row * factor, np.float64),
            None if rates.pack is None else PackRates(*(factor * each for each in astuple(rates.pack))),
        )

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage for one micro-batch."""
        return self.cost.stage_seconds(replica, stage, shape, kind) * self.stages.get(replica.config.tp, 1.0)

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand activations to the next stage."""
        return self.cost.transfer_seconds(plan, replica, shape) * self.transfer

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients and to update."""
        return self.cost.synchronise_seconds(plan) * self.synchronise

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on: the model's own evidence, changed on purpose."""
        known = self.cost.provenance(config, tenants, shards)
        return replace(known, notes=(*known.notes, "coefficients perturbed"))


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
    return Perturbed(inner, stages, transfer, synchronise)


def check_spread(spread: float, law: str) -> None:
    """Refuse a law that there is not, and a spread that could make a price zero or infinite."""
    if law not in ("uniform", "lognormal"):
        raise BadInput(f"regret: law is {law!r}; choose uniform or lognormal")
    if not 0 <= spread < (1.0 if law == "uniform" else float("inf")):
        limit = "in [0, 1), so that no price becomes zero" if law == "uniform" else "a finite number, 0 or more"
        raise BadInput(f"regret: the spread is {spread}; with law {law} it must be {limit}")


def _with_other_coefficients(cost: CostModel, factor: Factor) -> tuple[CostModel, dict[int, float]]:
    """The model with its own coefficients changed; or, of an unknown form, factors of its stage seconds by tp."""
    if isinstance(cost, LayeredCost):
        return _layered(cost, factor), {}
    if isinstance(cost, FittedCost):
        return replace(cost, layered=_layered(cost.layered, factor)), {}
    if isinstance(cost, PaperCost):
        changed = {}
        for tp in sorted(cost.coefficients):
            c1, c2, c3, c4, c5, c6 = (value * factor() for value in cost.coefficients[tp])
            changed[tp] = (c1, c2, c3, c4, c5, c6)
        return replace(cost, coefficients=changed), {}
    return cost, {tp: factor() for tp in sorted({config.tp for config in cost.configs()})}


def _layered(cost: LayeredCost, factor: Factor) -> LayeredCost:
    """One factor for each coefficient of a tp, the same however many replicas share a micro-batch."""
    names = ("floor", "fixed", "run", "token", "square")
    factors = {tp: {name: factor() for name in names} for tp in sorted({tp for tp, _, _ in cost.prices})}
    prices = {
        key: price._replace(**{name: getattr(price, name) * factors[key[0]][name] for name in names})
        for key, price in cost.prices.items()
    }
    return replace(cost, prices=prices)
