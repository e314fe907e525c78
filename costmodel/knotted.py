"""The cost model whose simulator is finer than its planner: `cost=knots`.

Plans are priced by the floor form, stages are played by curves with knots. On the last stage both have the output head
on top, which a sum of layers leaves out: its weights cost what a layer's cost a token, half forward and half backward.
Against the paper's 32 published step times (Table 9, nothing fitted to them) that is off by 2.2 % on average
instead of 5.6 % (`benchmarks/validate_costmodel.py`).

Its limits: embedding, loss and the head's fixed part are free; replicas that share a micro-batch (context parallelism)
take the curves at their own share of it; a pack's short sequences cost no row each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from costmodel.fitted import FittedCost
from costmodel.layered import LayeredCost
from costmodel.views import Directions
from lobra.batch import Array, frozen
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.rates import Provenance, Rates
from lobra.spec import ModelSpec, Tenant


@dataclass(frozen=True, slots=True)
class KnottedCost:
    """Another cost model's answers, but stage seconds by curves; a `lobra.protocols.CostModel`."""

    planned: LayeredCost | FittedCost
    views: Mapping[int, Directions]  # by tp
    head: float  # of a layer's weights; 0 where the layer times hold it already
    note: str

    @property
    def layered(self) -> LayeredCost:
        """The floor form."""
        return self.planned.layered if isinstance(self.planned, FittedCost) else self.planned

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price."""
        return self.planned.configs()

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold."""
        return self.planned.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """What planners price with: the floor form, and the head where the last stage is the largest for it."""
        rates = self.planned.rates(config, widths, shards)
        if not self.head or self.layered.model.layers % config.pp:
            return rates
        token, pack = self._head_token(config, shards), rates.pack
        return replace(
            rates,
            row=frozen(rates.row + token * np.asarray(widths, dtype=np.float64), np.float64),
            pack=None if pack is None else replace(pack, token=pack.token + token),
        )

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage for one micro-batch, by the curves."""
        config, layered, parts = replica.config, self.layered, shape.shards
        price = layered.price(config, parts)
        layers = layered.stage_layers(replica, stage)
        view = self.views[config.tp]
        asked = (shape.runs, shape.rows, shape.tokens / parts, shape.squares / parts)
        messages, head = 0.0, 0.0
        if parts > 1:
            alone = layered.price(config, 1)
            messages = (price.fixed - alone.fixed + (price.token - alone.token / parts) * shape.tokens) / 2
        if self.head and stage == config.pp - 1:
            head = self._head_token(config, parts) * shape.tokens / 2
        forward = max(view.forward.seconds(*asked) + messages, price.gather / 2)
        if kind == "forward":
            return layers * forward + head
        backward = max(view.backward.seconds(*asked) + messages, price.gather / 2)
        return layers * backward + min(layers, config.recompute) * forward + head

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand a micro-batch's activations to the next stage."""
        return self.planned.transfer_seconds(plan, replica, shape)

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients and to update."""
        return self.planned.synchronise_seconds(plan)

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on; with a head they are never merely measured."""
        known = self.planned.provenance(config, tenants, shards)
        status = "derived" if self.head and known.status == "measured" else known.status
        told = (f"head: {self.head:.2f} of a layer's part a token on the last stage",) if self.head else ()
        return replace(known, status=status, notes=(*known.notes, self.note, *told))

    def _head_token(self, config: ReplicaConfig, shards: int) -> float:
        """Seconds of the head a token, forward plus backward."""
        return self.head * self.layered.price(config, 1).token / shards


def head_layers(model: ModelSpec) -> float:
    """The output head's weights in layers of this model."""
    return model.hidden * model.vocabulary / model.layer_parameters
