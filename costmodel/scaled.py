"""The same cost model with other numbers: factors of its coefficients, and of its answers.

Both what a plan must withstand (`costmodel.perturbed`) and what the truth may be (`costmodel.uncertainty`) are such
models; they differ in the law of the factors. Coefficients are changed in every view at once, so what plans and what
plays moves alike; the head follows the part of a token. Memory and candidates stay: what fits is no coefficient.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Literal

import numpy as np

from costmodel.fitted import FittedCost
from costmodel.knots import Curve
from costmodel.knotted import KnottedCost
from costmodel.layer import LayerPrice
from costmodel.layered import LayeredCost
from costmodel.views import Directions
from lobra.batch import Array, frozen
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.protocols import CostModel
from lobra.rates import PackRates, Provenance, Rates
from lobra.spec import Tenant

Layered = LayeredCost | FittedCost | KnottedCost  # cost models with coefficients by tp
Factors = Mapping[str, float]  # of floor, fixed, run, token, square; 1 where there is none
COEFFICIENTS = ("floor", "fixed", "run", "token", "square")


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another cost model's answers times factors; a `lobra.protocols.CostModel`."""

    cost: CostModel
    stages: Mapping[int | tuple[int, int], float]  # of stage seconds, by (tp, pp) or by tp; 1 where there is none
    transfer: float | None  # None: as the stages of the replica
    synchronise: float
    note: str

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price."""
        return self.cost.configs()

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold: unchanged."""
        return self.cost.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of micro-batches of these widths."""
        rates, factor = self.cost.rates(config, widths, shards), self._factor(config)
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
        return self.cost.stage_seconds(replica, stage, shape, kind) * self._factor(replica.config)

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand activations to the next stage."""
        factor = self._factor(plan.replicas[replica].config) if self.transfer is None else self.transfer
        return self.cost.transfer_seconds(plan, replica, shape) * factor

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients and to update."""
        return self.cost.synchronise_seconds(plan) * self.synchronise

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on: the model's own evidence, changed on purpose."""
        known = self.cost.provenance(config, tenants, shards)
        return replace(known, notes=(*known.notes, self.note))

    def _factor(self, config: ReplicaConfig) -> float:
        return self.stages.get((config.tp, config.pp), self.stages.get(config.tp, 1.0))


def floor_form(cost: Layered) -> LayeredCost:
    """The planner's view, which has the coefficients."""
    return cost if isinstance(cost, LayeredCost) else cost.layered


def with_factors(cost: Layered, factors: Mapping[int, Factors]) -> Layered:
    """The model with the coefficients of each tp times its factors, in both views.

    The factors of a tp are the same however many replicas share a micro-batch.
    """
    if not isinstance(cost, KnottedCost):
        return _planned(cost, factors)
    views = {
        tp: Directions(*(changed_curve(curve, factors.get(tp, {})) for curve in view))
        for tp, view in cost.views.items()
    }
    return replace(cost, planned=_planned(cost.planned, factors), views=views)


def changed(price: LayerPrice, factors: Factors) -> LayerPrice:
    """The price with its coefficients times these factors."""
    return price._replace(**{name: getattr(price, name) * factor for name, factor in factors.items()})


def changed_curve(curve: Curve, factors: Factors) -> Curve:
    """The curve with its height at no token times the fixed part's factor, and its rises times the token's."""
    fixed, run, token, square = (factors.get(name, 1.0) for name in COEFFICIENTS[1:])
    start = curve.heights[0] if fixed != token else 0.0  # where both move alike nothing is rounded
    return Curve(
        curve.knots,
        tuple(fixed * start + token * (height - start) for height in curve.heights),
        tuple(token * slope for slope in curve.slopes),
        run * curve.run,
        token * curve.row,
        square * curve.square,
    )


def _planned(cost: LayeredCost | FittedCost, factors: Mapping[int, Factors]) -> LayeredCost | FittedCost:
    if isinstance(cost, FittedCost):
        return replace(cost, layered=_layered(cost.layered, factors))
    return _layered(cost, factors)


def _layered(cost: LayeredCost, factors: Mapping[int, Factors]) -> LayeredCost:
    prices = {key: changed(price, factors.get(key[0], {})) for key, price in cost.prices.items()}
    return replace(cost, prices=prices)
