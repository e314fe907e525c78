"""Moving from one deployment to another in mid-stream: what every GPU must receive, and how long that takes.

A GPU keeps what it holds already: its slice of a layer's frozen weights, adapters and optimiser states under the old
plan, as far as the new plan wants the same slice there. The rest it receives from a GPU of its own node where one held
it, otherwise from another node: every replica holds the whole model, so somebody did. All GPUs receive at once, each at
the bandwidth that messages really get on its link; senders are no bottleneck, as receivers of one slice can pass it on.
Adapters of tenants who arrive are made in place, those of tenants who leave stay where they are saved.

Slices are those of the memory model: tensor parallelism cuts every matrix evenly, tables included. Not counted: making
process groups, reading a checkpoint. What `Moving` says is derived; `Reloading` prices an engine that makes
anew what it holds already, from a profile.

Shapes: G GPUs, R rows (layers, embedding, head), C cells into which a row is cut.
"""

from dataclasses import dataclass
from itertools import repeat
from math import lcm

import numpy as np

from costmodel.communication import bytes_per_second
from costmodel.memory import ADAPTER_BYTES, OPTIMISER_BYTES, WEIGHT_BYTES, adapter_parameters
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica
from lobra.schedule import even_cut
from lobra.spec import ModelSpec


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """What a re-deployment changes and sends."""

    weight_bytes: Array  # float64 [G], frozen weights that a GPU receives
    state_bytes: Array  # float64 [G], adapters and optimiser states that it receives
    crossing_bytes: Array  # float64 [G], of both, what comes from another node
    staying: tuple[int, ...]  # replicas of the new plan that keep their GPUs, their shape and their layers
    changed: tuple[int, ...]  # GPUs that get another place in a replica, or lose or gain one
    seconds: float  # of sending

    @property
    def received(self) -> Array:
        """All bytes that a GPU receives; float64 [G]."""
        total: Array = self.weight_bytes + self.state_bytes
        return total


def move(before: DeploymentPlan, after: DeploymentPlan) -> Move:
    """From the old plan to the new one; BadInput where they are not of one model on one cluster."""
    if (before.model, before.cluster) != (after.model, after.cluster):
        raise BadInput(
            f"re-deployment: from model '{before.model.name}' on {before.cluster.gpus} GPUs of cluster "
            f"'{before.cluster.name}' to '{after.model.name}' on {after.cluster.gpus} of '{after.cluster.name}'; "
            "a run keeps its model and its cluster"
        )
    cells = lcm(*(replica.config.tp * replica.config.fsdp for plan in (before, after) for replica in plan.replicas))
    node_of = np.array([before.cluster.node_of(gpu) for gpu in range(before.cluster.gpus)])
    weights = _row_bytes(before.model) / cells
    staying = set(before.tenants) & set(after.tenants)
    state = (ADAPTER_BYTES + OPTIMISER_BYTES) * sum(adapter_parameters(before.model, tenant) for tenant in staying)
    inside, across = _lacking(_held(before, cells, sharded=True), _held(after, cells, sharded=True), node_of)
    layers = slice(0, before.model.layers)
    near, far = _lacking(_held(before, cells)[:, layers], _held(after, cells)[:, layers], node_of)
    from_inside = inside @ weights + near.sum(axis=1) * state / cells
    from_across = across @ weights + far.sum(axis=1) * state / cells
    old, new = _places(before), _places(after)
    whole = {_place(replica) for replica in before.replicas}
    return Move(
        staying=tuple(number for number, replica in enumerate(after.replicas) if _place(replica) in whole),
        changed=tuple(gpu for gpu in range(after.cluster.gpus) if old.get(gpu) != new.get(gpu)),
        weight_bytes=(inside + across) @ weights,
        state_bytes=(near + far).sum(axis=1) * state / cells,
        crossing_bytes=from_across,
        seconds=_seconds(before, from_inside, from_across),
    )


def move_seconds(before: DeploymentPlan, after: DeploymentPlan) -> float:
    """How long a re-deployment takes; nothing where no GPU lacks anything."""
    return move(before, after).seconds


@dataclass(frozen=True, slots=True)
class Moving:
    """Prices re-deployments: what planner and simulator both call."""

    fixed_seconds: float = 0.0  # of each that moves a replica, whatever it sends: process groups, warm-up

    def __post_init__(self) -> None:
        if not 0 <= self.fixed_seconds < float("inf"):
            raise BadInput(
                f"deploy_seconds is {self.fixed_seconds}; a re-deployment takes a finite number of seconds, 0 or more"
            )

    def __call__(self, before: DeploymentPlan, after: DeploymentPlan) -> float:
        """Seconds of a re-deployment; nothing where every replica keeps its shape and its GPUs."""
        if sorted(map(_place, before.replicas)) == sorted(map(_place, after.replicas)):
            return 0.0
        return self.fixed_seconds + move_seconds(before, after)


@dataclass(frozen=True, slots=True)
class Reloading:
    """Prices re-deployments of an engine that makes every stage anew, whatever its ranks hold: as this executor does.

    Measured by a profile, a GiB of a rank's frozen weights: reading or drawing them, and making adapters. The slowest
    rank counts. Layers are cut by tp, tables are whole on each rank.
    """

    seconds_per_gib: float
    parameter_bytes: int
    fixed_seconds: float = 0.0

    def __call__(self, before: DeploymentPlan, after: DeploymentPlan) -> float:
        """Seconds of a re-deployment, also of one that changes nothing."""
        del before
        return self.fixed_seconds + self.seconds_per_gib * max(map(self._gib, after.replicas, repeat(after.model)))

    def _gib(self, replica: Replica, model: ModelSpec) -> float:
        """Of the rank of this replica that holds most."""
        rows, cut = _row_bytes(model) / WEIGHT_BYTES, np.ones(model.layers + 2)
        cut[: model.layers] = replica.config.tp
        stages = (_rows(model, replica, stage) for stage in range(replica.config.pp))
        return max(float((rows[held] / cut[held]).sum()) for held in stages) * self.parameter_bytes / 2**30


def _places(plan: DeploymentPlan) -> dict[int, tuple[object, ...]]:
    """What every GPU in use does: its position in a replica of a shape."""
    return {gpu: (n, *_place(replica)[1:]) for replica in plan.replicas for n, gpu in enumerate(replica.gpus)}


def _place(replica: Replica) -> tuple[object, ...]:
    """What a GPU's slices follow from; recomputation and budget move nothing."""
    return replica.gpus, replica.config.tp, replica.config.pp, replica.config.fsdp, replica.layers or ()


def _seconds(plan: DeploymentPlan, inside: Array, across: Array) -> float:
    """Until the last GPU has all: its bytes over both links, one message's latency on each that it uses."""
    seconds = np.zeros(len(inside))
    for size, link in ((inside, plan.cluster.intra_node), (across, plan.cluster.inter_node)):
        seconds += np.where(size > 0, size / bytes_per_second(link) + link.latency_microseconds * 1e-6, 0.0)
    return float(seconds.max())


def _row_bytes(model: ModelSpec) -> Array:
    """Bytes of every layer, the embedding, and the head with the last norm; float64 [R]."""
    table = model.vocabulary * model.hidden
    head = model.hidden + (0 if model.tied_embeddings else table)
    return WEIGHT_BYTES * np.array([*[model.layer_parameters] * model.layers, table, head], np.float64)


def _held(plan: DeploymentPlan, cells: int, *, sharded: bool = False) -> Array:
    """Who holds which cell of which row; bool [G, R, C]. `sharded`: of frozen weights, which fsdp cuts further."""
    held = np.zeros((plan.cluster.gpus, plan.model.layers + 2, cells), bool)
    seen: dict[object, int] = {}
    for replica in plan.replicas:
        number = seen[replica.config] = seen.get(replica.config, -1) + 1
        tp, parts = replica.config.tp, replica.config.fsdp if sharded else 1
        for place, gpu in enumerate(replica.gpus):
            stage, shard = divmod(place, tp)
            width = cells // (tp * parts)
            first = (shard * parts + number % parts) * width
            held[gpu, _rows(plan.model, replica, stage), first : first + width] = True
    return held


def _rows(model: ModelSpec, replica: Replica, stage: int) -> list[int]:
    """Rows that a stage holds."""
    starts = replica.layers if replica.layers is not None else even_cut(model.layers, replica.config.pp)
    rows = list(range(starts[stage], (*starts[1:], model.layers)[stage]))
    last = stage == replica.config.pp - 1
    if stage == 0 or (last and model.tied_embeddings):
        rows.append(model.layers)
    if last:
        rows.append(model.layers + 1)
    return rows


def _lacking(before: Array, after: Array, node_of: Array) -> tuple[Array, Array]:
    """Cells of every row that a GPU lacks: those that its node held, and those it did not; int64 [G, R] each."""
    lacks = after & ~before
    near = np.zeros_like(lacks)
    for node in np.unique(node_of):
        members = node_of == node
        near[members] = lacks[members] & before[members].any(axis=0)
    return near.sum(axis=2), (lacks & ~near).sum(axis=2)
