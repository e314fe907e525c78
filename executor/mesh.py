"""Where this rank stands in a plan, and the process groups it talks in.

There is no global grid: two ranks of one job may have different tp and pp. Every group is made by all ranks in the same
order and kept by its ranks, so that a later plan finds it again; a rank of no replica makes them too. A group of one
rank is None: nothing is to be sent.

Ranks of a stage are numbered as shards in ascending order, which is the order in which collectives see them.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch.distributed as dist

from executor.shards import even_slice
from lobra.plan import DeploymentPlan, Replica, StepPlan
from lobra.schedule import even_cut

Group = dist.ProcessGroup


@dataclass(frozen=True, slots=True)
class Place:
    """Replica, stage and shard of one rank."""

    replica: int
    stage: int
    shard: int
    tp: int
    pp: int
    layers: range  # global numbers of the stage's layers

    @property
    def first(self) -> bool:
        """Whether it embeds the tokens."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether it computes the losses."""
        return self.stage == self.pp - 1


@dataclass(frozen=True, slots=True)
class Holders:
    """Layers whose adapters live on exactly these ranks."""

    layers: tuple[int, ...]
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """Ranks that share a micro-batch by context parallelism; position is the group rank of each chunk's owner."""

    group: Group
    member: int  # which chunk of the tokens is this rank's
    position: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many chunks there are."""
        return len(self.position)


class Groups:
    """Process groups made so far. All ranks must ask for the same groups in the same order."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, tuple[int, ...]], Group | None] = {}

    def get(self, purpose: str, ranks: tuple[int, ...]) -> Group | None:
        """The group of these ranks for one purpose; purposes never share a group, so their messages cannot mix."""
        key = (purpose, tuple(sorted(ranks)))
        if key not in self._made:
            self._made[key] = dist.new_group(list(key[1])) if len(ranks) > 1 else None
        return self._made[key]


def own_rank() -> int:
    """This process's rank; 0 in a process of its own, without torch.distributed."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Ranks of the job."""
    return dist.get_world_size() if dist.is_initialized() else 1


def stage_ranks(replica: Replica, stage: int) -> tuple[int, ...]:
    """Ranks of one stage by shard."""
    tp = replica.config.tp
    return tuple(sorted(replica.gpus[stage * tp : (stage + 1) * tp]))


def stage_layers(plan: DeploymentPlan, replica: int, stage: int) -> range:
    """Layers of one stage."""
    place = plan.replicas[replica]
    starts = place.layers if place.layers is not None else even_cut(plan.model.layers, place.config.pp)
    return range(starts[stage], (*starts, plan.model.layers)[stage + 1])


def place_of(plan: DeploymentPlan, rank: int) -> Place | None:
    """Where a rank stands; None where no replica uses it."""
    for number, replica in enumerate(plan.replicas):
        for stage in range(replica.config.pp):
            ranks = stage_ranks(replica, stage)
            if rank in ranks:
                tp, pp = replica.config.tp, replica.config.pp
                return Place(number, stage, ranks.index(rank), tp, pp, stage_layers(plan, number, stage))
    return None


def holders(plan: DeploymentPlan) -> tuple[Holders, ...]:
    """Layers by who holds them, in the order of their first layer."""
    sets: dict[tuple[int, ...], list[int]] = {}
    for layer in range(plan.model.layers):
        ranks = [
            rank
            for number, replica in enumerate(plan.replicas)
            for stage in range(replica.config.pp)
            if layer in stage_layers(plan, number, stage)
            for rank in stage_ranks(replica, stage)
        ]
        sets.setdefault(tuple(sorted(ranks)), []).append(layer)
    return tuple(Holders(tuple(layers), ranks) for ranks, layers in sets.items())


class Mesh:
    """The groups of one plan, seen from one rank."""

    def __init__(self, plan: DeploymentPlan, rank: int, groups: Groups) -> None:
        self.plan = plan
        self.rank = rank
        self.place = place_of(plan, rank)
        self.holders = holders(plan)
        self.tensor: Group | None = None
        self.before: tuple[int, Group] | None = None  # the rank of the stage before, and the pair's group
        self.after: tuple[int, Group] | None = None
        self._groups = groups
        for replica in plan.replicas:
            self._join_replica(replica)
        self.holder_groups = tuple(groups.get("holders", each.ranks) for each in self.holders)

    def _join_replica(self, replica: Replica) -> None:
        stages = [stage_ranks(replica, stage) for stage in range(replica.config.pp)]
        for ranks in stages:
            group = self._groups.get("tensor", ranks)
            if self.rank in ranks:
                self.tensor = group
        for left, right in pairwise(stages):
            for sender, receiver in zip(left, right, strict=True):
                # one pair, one group: downwards only activations, upwards only their gradients, so order is enough
                pair = self._groups.get("link", (sender, receiver))
                if pair is not None and self.rank == sender:
                    self.after = receiver, pair
                if pair is not None and self.rank == receiver:
                    self.before = sender, pair

    def contexts(self, step: StepPlan) -> dict[tuple[int, ...], Context]:
        """Context-parallel groups of a step's shared micro-batches that this rank belongs to, by their replicas."""
        mine: dict[tuple[int, ...], Context] = {}
        for shared in sorted({each.group for work in step.work for each in work if each.group}):
            stages = zip(*(self._columns(replica) for replica in shared), strict=True)
            for ranks in stages:
                group = self._groups.get("context", ranks)
                if self.rank in ranks and group is not None:
                    ascending = sorted(ranks)
                    position = tuple(ascending.index(rank) for rank in ranks)
                    mine[shared] = Context(group, ranks.index(self.rank), position)
        return mine

    def _columns(self, replica: int) -> list[int]:
        config = self.plan.replicas[replica].config
        return [rank for stage in range(config.pp) for rank in stage_ranks(self.plan.replicas[replica], stage)]


def token_slice(tokens: int, place: Place, shards: int, member: int) -> slice:
    """The tokens of a stream that one rank keeps between collectives."""
    chunk = even_slice(tokens, member, shards)
    part = even_slice(tokens // shards, place.shard, place.tp)
    return slice(chunk.start + part.start, chunk.start + part.stop)
