"""The cost model whose simulator is finer than its planner: `cost=knots`, the default where a source has curves.

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

from costmodel.fitted import FittedCost
from costmodel.layered import LayeredCost
from costmodel.views import Directions
from lobra.batch import Array
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.rates import Provenance, Rates
from lobra.spec import ModelSpec, Tenant


@dataclass(frozen=True, slots=True)
class KnottedCost:
    """Another cost model's answers, but stage seconds by curves; a `lobra.protocols.CostModel`."""

    planned: LayeredCost | FittedCost
    views: Mapping[int, Directions]  # by tp
    note: str

    @property
    def layered(self) -> LayeredCost:
        """The floor form, which knows the head."""
        return self.planned.layered if isinstance(self.planned, FittedCost) else self.planned

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price."""
        return self.planned.configs()

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold."""
        return self.planned.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """What planners price with: the floor form, head included."""
        return self.planned.rates(config, widths, shards)

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage for one micro-batch, by the curves."""
        config, layered, parts = replica.config, self.layered, shape.shards
        (ahead, back), gather, head = (0.0, 0.0), 0.0, 0.0
        if parts > 1 or config.fsdp > 1 or config.tp not in self.views:
            (ahead, back), gather = self._exchanged(config, shape)
        if layered.head and stage == config.pp - 1:
            head = layered.head_token(config, parts) * shape.tokens / 2
        layers, view = layered.stage_layers(replica, stage), self.views[config.tp]
        asked = (shape.runs, shape.rows, shape.tokens / parts, shape.squares / parts)
        if kind == "forward":
            return layers * max(view.forward.seconds(*asked) + ahead, gather) + head
        seconds = layers * max(view.backward.seconds(*asked) + back, gather) + head
        if config.recompute:
            seconds += min(layers, config.recompute) * max(view.forward.seconds(*asked) + ahead, gather)
        return seconds

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand a micro-batch's activations to the next stage."""
        return self.planned.transfer_seconds(plan, replica, shape)

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients and to update."""
        return self.planned.synchronise_seconds(plan)

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on; with a head they are never merely measured."""
        known = self.planned.provenance(config, tenants, shards)
        return replace(known, notes=(*known.notes, self.note))

    def _exchanged(self, config: ReplicaConfig, shape: Shape) -> tuple[tuple[float, float], float]:
        """Seconds of one layer: messages of a shared micro-batch, forward and backward, and half a weights' gather."""
        layered, parts = self.layered, shape.shards
        price = layered.price(config, parts)
        if parts == 1:
            return (0.0, 0.0), price.gather / 2
        if (messages := layered.ring_seconds(config, shape)) is not None:
            return messages, price.gather / 2
        alone = layered.price(config, 1)
        half = (price.fixed - alone.fixed + (price.token - alone.token / parts) * shape.tokens) / 2
        return (half, half), price.gather / 2


def head_layers(model: ModelSpec) -> float:
    """The output head's weights in layers of this model."""
    return model.hidden * model.vocabulary / model.layer_parameters
