"""The cost model of the floor form: fitted to a profile, or a roofline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from costmodel import exchange
from costmodel.communication import smallest_node
from costmodel.context import gather_seconds, refuse_shards
from costmodel.layer import LayerPrice, directions, stage_price
from lobra.batch import Array, frozen
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.rates import PackRates, Provenance, Rates
from lobra.schedule import stage_sizes
from lobra.spec import ClusterSpec, ModelSpec, Tenant


class Memory(Protocol):
    """How many tokens fit."""

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold."""

    def covers(self, config: ReplicaConfig) -> bool:
        """Whether it has an answer for this configuration."""

    def notes(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> tuple[str, ...]:
        """What a reader must know of that."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What layer times rest on; hull: largest tokens of a micro-batch and of a sequence that were measured, by tp."""

    status: str  # measured or roofline
    source: str
    hull: Mapping[int, tuple[int, int]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LayeredCost:
    """Prices by tp, and from them stages, recomputation, context parallelism, sharded weights."""

    model: ModelSpec
    cluster: ClusterSpec
    prices: Mapping[tuple[int, int, bool], LayerPrice]  # by tp, shards, whether the group of shards crosses nodes
    memory: Memory
    candidates: tuple[ReplicaConfig, ...]
    evidence: Evidence

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price, recompute 0."""
        return self.candidates

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold; 0 where even the weights do not fit."""
        self._check(config)
        return self.memory.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of the largest stage for micro-batches of these widths; one adapter run a padded micro-batch."""
        self._check(config)
        layers = -(-self.model.layers // config.pp)
        stage = stage_price(self.price(config, shards), layers, config.recompute)
        width = np.asarray(widths, dtype=np.float64)
        return Rates(
            floor=stage.floor,
            fixed=frozen(np.full(width.shape, stage.fixed + stage.run), np.float64),
            row=frozen(stage.token * width + stage.square * width**2, np.float64),
            pack=PackRates(stage.fixed, stage.run, stage.token, stage.square),
        )

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage for one micro-batch; forward and backward add up to the whole to the last bit."""
        config = replica.config
        price = self.price(config, shape.shards)
        layers = self.stage_layers(replica, stage)
        recomputed = min(layers, config.recompute)
        return directions(price, layers, recomputed, shape)[kind == "backward"]

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand a micro-batch's activations to the next stage."""
        return exchange.transfer_seconds(plan, replica, shape)

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients and to update."""
        return exchange.synchronise_seconds(plan)

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on: measured, derived (measured times, composed by assumption) or roofline."""
        evidence, status, notes = self.evidence, self.evidence.status, list(self.evidence.notes)
        if status == "measured" and (config.pp > 1 or config.recompute or config.fsdp > 1 or shards > 1):
            status = "derived"
        if config.pp > 1:
            notes.append("pipelines: stages added up from layers, transfers from link bandwidth")
        if config.recompute:
            notes.append("recomputation: measured layer time plus an assumed forward share")
        if config.fsdp > 1:
            notes.append("sharded weights: gathering assumed hidden behind the layer")
        if shards > 1:
            notes.append("context parallelism: layer time divided, all-to-all from link bandwidth")
        room = self.max_tokens(config, tenants) * shards
        tokens, length = evidence.hull.get(config.tp, (room, room))
        if room > length:
            notes.append(
                f"S2 beyond the profiled hull (sequences over {length} tokens at tp {config.tp}): extrapolated"
            )
        if room > tokens:
            notes.append(f"N beyond the profiled hull ({tokens} tokens at tp {config.tp}): extrapolated")
        return Provenance(status, evidence.source, (*notes, *self.memory.notes(config, tenants)))

    def price(self, config: ReplicaConfig, shards: int) -> LayerPrice:
        """The price of a layer on each of so many replicas that share a micro-batch; BadInput where there is none."""
        crosses = config.gpus * shards > smallest_node(self.cluster)
        price = self.prices.get((config.tp, shards, crosses))
        if price is None:
            self._check(config)
            raise refuse_shards(self.model, config.tp, shards)
        if config.fsdp == 1:
            return price
        return price._replace(gather=gather_seconds(self.model, self.cluster, config))

    def stage_layers(self, replica: Replica, stage: int) -> int:
        """Layers of a stage; the first ones hold the remainder where the replica has no cut of its own."""
        if replica.layers is not None:
            return stage_sizes(self.model.layers, replica.config.pp, replica.layers)[stage]
        size, rest = divmod(self.model.layers, replica.config.pp)
        return size + 1 if stage < rest else size

    def _check(self, config: ReplicaConfig) -> None:
        if (config.tp, 1, False) not in self.prices:
            known = ", ".join(str(tp) for tp, shards, crosses in self.prices if shards == 1 and not crosses)
            raise BadInput(
                f"configuration {config}: tp {config.tp} has no price in the {self.evidence.status} layer times; "
                f"they have tp {known}; choose another tp or form=roofline"
            )
        if config.pp > self.model.layers or config.recompute > -(-self.model.layers // config.pp):
            raise BadInput(
                f"configuration {config}: '{self.model.name}' has {self.model.layers} layers; use pp <= "
                f"{self.model.layers} and recompute at most the layers of a stage"
            )
