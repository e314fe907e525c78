"""The cost model of the floor form: fitted to a profile, or a roofline.

A layer is priced by tp; stages are layers, and the last one may have the output head on top: what it takes a token, as
a multiple of a layer's part a token. Embedding is left out: looking up rows and, at tp > 1, one message like a layer's
four are about a thousandth of a step, on a stage that has no head. So are the head's own launch and the loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from costmodel import exchange
from costmodel.communication import smallest_node
from costmodel.context import Choice, Key, gather_seconds, refuse_shards
from costmodel.layer import LayerPrice, directions, stage_price
from costmodel.messages import PAIR, Messages
from costmodel.ring import BYTES, Ring, pack_messages, row_messages, unhidden
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
    prices: Mapping[Key, LayerPrice]  # by tp, shards, whether the group of shards crosses nodes
    memory: Memory
    candidates: tuple[ReplicaConfig, ...]
    evidence: Evidence
    head: Mapping[int, float] = field(default_factory=dict)  # of a layer's part a token, by tp; none: layers alone
    messages: Messages = field(default_factory=Messages)
    rings: Mapping[Key, Ring] = field(default_factory=dict)  # groups that are rings; what is not hidden comes on top
    context: Choice = "ulysses"  # what groups may be

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price, recompute 0."""
        return self.candidates

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold; 0 where even the weights do not fit."""
        self._check(config)
        return self.memory.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of the largest stage for micro-batches of these widths; one adapter run a padded micro-batch.

        That is the last one, with the head, where stages are even; else the first one, without it.
        """
        self._check(config)
        layers = -(-self.model.layers // config.pp)
        stage = stage_price(self.price(config, shards), layers, config.recompute)
        if self.head and self.model.layers % config.pp == 0:
            stage = stage._replace(token=stage.token + self.head_token(config, shards))
        width = np.asarray(widths, dtype=np.float64)
        fixed, row = np.full(width.shape, stage.fixed + stage.run), stage.token * width + stage.square * width**2
        pack = PackRates(stage.fixed, stage.run, stage.token, stage.square)
        if (ring := self._ring(config, shards)) is not None:
            again = config.recompute / layers
            extra = row_messages(self.price(config, 1), ring, width, again)
            fixed, row = fixed + layers * extra.fixed, row + layers * extra.row
            start, token, square = (layers * part for part in pack_messages(self.price(config, 1), ring, again))
            pack = PackRates(pack.fixed + start, pack.run, pack.token + token, pack.square + square)
        return Rates(stage.floor, frozen(fixed, np.float64), frozen(row, np.float64), pack)

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage for one micro-batch; forward and backward add up to the whole to the last bit."""
        config = replica.config
        price = self.price(config, shape.shards)
        layers = self.stage_layers(replica, stage)
        recomputed = min(layers, config.recompute)
        head = 0.0
        if self.head and stage == config.pp - 1:
            head = self.head_token(config, shape.shards) * shape.tokens
        seconds = directions(price, layers, recomputed, shape, head)[kind == "backward"]
        if not self.rings or (messages := self.ring_seconds(config, shape)) is None:
            return seconds
        forward, backward = messages
        return seconds + (layers * backward + recomputed * forward if kind == "backward" else layers * forward)

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand a micro-batch's activations to the next stage."""
        return exchange.transfer_seconds(plan, replica, shape, self.messages)

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """Seconds to sum the adapters' gradients and to update."""
        return exchange.synchronise_seconds(plan, self.messages)

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on: measured, derived (measured times, composed by assumption) or roofline."""
        evidence, status, notes = self.evidence, self.evidence.status, list(self.evidence.notes)
        head = self.head.get(config.tp)
        if status == "measured" and (config.pp > 1 or config.recompute or config.fsdp > 1 or shards > 1 or head):
            status = "derived"
        if head:
            shares = " to ".join(dict.fromkeys(f"{end(self.head.values()):.2f}" for end in (min, max)))
            notes.append(f"head: {shares} of a layer's part a token on the last stage, by its weights")
        if config.pp > 1:
            crosses, size = config.gpus > smallest_node(self.cluster), self._message(config, tenants, 1)
            told = self.messages.note("point_to_point", PAIR, crosses=crosses, size=size)
            notes.append(f"pipelines: stages added up from layers, transfers {told}")
        if config.recompute:
            notes.append("recomputation: measured layer time plus an assumed forward share")
        if config.fsdp > 1:
            notes.append("sharded weights: gathering assumed hidden behind the layer")
        if shards > 1:
            notes.append(self._told_of_groups(config, tenants, shards))
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
        price = self.prices.get(self._key(config, shards))
        if price is None:
            self._check(config)
            raise refuse_shards(self.model, config.tp, shards, self.context)
        if config.fsdp == 1:
            return price
        return price._replace(gather=gather_seconds(self.model, self.cluster, config, self.messages))

    def head_token(self, config: ReplicaConfig, shards: int) -> float:
        """Seconds a token that the output head takes on the last stage, forward plus backward; 0 where it has none."""
        return self.head.get(config.tp, 0.0) * self.prices[config.tp, 1, False].token / shards

    def stage_layers(self, replica: Replica, stage: int) -> int:
        """Layers of a stage; the first ones hold the remainder where the replica has no cut of its own."""
        if replica.layers is not None:
            return stage_sizes(self.model.layers, replica.config.pp, replica.layers)[stage]
        size, rest = divmod(self.model.layers, replica.config.pp)
        return size + 1 if stage < rest else size

    def ring_seconds(self, config: ReplicaConfig, shape: Shape) -> tuple[float, float] | None:
        """Seconds of one layer's messages that attention does not hide, forward and backward; None: it is no ring."""
        ring = self._ring(config, shape.shards)
        return None if ring is None else unhidden(self.price(config, 1), ring, shape.tokens, shape.squares)

    def _key(self, config: ReplicaConfig, shards: int) -> Key:
        return config.tp, shards, config.gpus * shards > smallest_node(self.cluster)

    def _ring(self, config: ReplicaConfig, shards: int) -> Ring | None:
        return self.rings.get(self._key(config, shards)) if self.rings and shards > 1 else None

    def _message(self, config: ReplicaConfig, tenants: Sequence[Tenant], parts: int) -> float:
        """Bytes of so many numbers as the hidden ones of every token of a full micro-batch, in bfloat16."""
        return BYTES * parts * self.model.hidden * self.max_tokens(config, tenants) / config.tp

    def _told_of_groups(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int) -> str:
        """How a group of replicas shares a micro-batch, and what the price of its messages rests on."""
        crosses = self._key(config, shards)[2]
        if self._ring(config, shards) is None:
            size = self._message(config, tenants, 3)  # q, k and v
            told = self.messages.note("all_to_all", shards, crosses=crosses, size=size)
            return f"context parallelism by Ulysses: layer time divided, {told}"
        told = self.messages.note("point_to_point", PAIR, crosses=crosses, size=self._message(config, tenants, 2))
        return f"context parallelism by ring, simulated only: layer time divided, hops behind attention, {told}"

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
