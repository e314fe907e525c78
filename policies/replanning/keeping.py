"""Placements for a new plan in which replicas that stay keep their GPUs.

A replica stays if the new plan wants one of the same shape (tp, pp, fsdp): recomputation and budget move nothing. Where
fewer of a shape are wanted than there are, it matters which of them go: what they free should lie together. Several
choices are therefore offered (the last go, the first go, those on the emptiest or the fullest nodes go); where the rest
finds no room, the smallest replicas give up their places too, and in the end all do. New replicas take the fullest node
that has room, as in placement.py. A heuristic: the cheapest of the offers need not be the cheapest there is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lobra.errors import Infeasible
from lobra.plan import Replica, ReplicaConfig
from lobra.spec import ClusterSpec
from policies.deployment.placement import Counts, Kind, place

Shape = tuple[int, int, int]
Order = Callable[[Replica], tuple[int, ...]]


def placements(counts: Counts, running: Sequence[Replica], cluster: ClusterSpec) -> Iterator[tuple[Replica, ...]]:
    """Different ones, none twice; the last is what an empty cluster would get. None where there is no room at all."""
    offered: set[tuple[Replica, ...]] = set()
    sizes = sorted({replica.config.gpus for replica in running})
    for order in _orders(running, cluster):
        for least in sizes:
            found = _keeping(counts, [each for each in running if each.config.gpus >= least], cluster, order)
            if found is not None:
                if found not in offered:
                    offered.add(found)
                    yield found
                break
    try:
        fresh = place(counts, cluster)
    except Infeasible:
        return
    if fresh not in offered:
        yield fresh


def _orders(running: Sequence[Replica], cluster: ClusterSpec) -> tuple[Order, ...]:
    """Who stays rather than others of its shape: the smaller key."""
    crowd = Counter((_shape(replica.config), _node(replica, cluster)) for replica in running)

    def fullness(replica: Replica) -> int:
        return crowd[_shape(replica.config), _node(replica, cluster)]

    return (
        lambda replica: replica.gpus,
        lambda replica: tuple(-gpu for gpu in replica.gpus),
        lambda replica: (-fullness(replica), *replica.gpus),
        lambda replica: (fullness(replica), *replica.gpus),
    )


def _keeping(
    counts: Counts, running: Sequence[Replica], cluster: ClusterSpec, order: Order
) -> tuple[Replica, ...] | None:
    """As many of these replicas as the counts want keep their places; None where the rest has no room."""
    wanted = Counter({kind: count for kind, count in counts if count})
    kept: dict[int, Replica] = {}
    by_preference = sorted(range(len(running)), key=lambda number: order(running[number]))
    for exact in (True, False):  # the same kind first: then nothing changes at all
        for number in by_preference:
            old = running[number]
            if number in kept or old.layers is not None:
                continue
            kind = _successor(old, wanted, exact=exact)
            if kind is not None:
                wanted[kind] -= 1
                kept[number] = replace(old, config=kind.config, budget=kind.budget)
    room = _Room(cluster, [gpu for replica in kept.values() for gpu in replica.gpus])
    new = []
    for kind in sorted(wanted.elements(), key=lambda kind: (-kind.config.tp, -kind.config.pp, kind)):
        gpus = room.take(kind.config.tp, kind.config.pp)
        if gpus is None:
            return None
        new.append(Replica(kind.config, gpus, kind.budget))
    return (*(kept[number] for number in sorted(kept)), *new)


def _successor(old: Replica, wanted: Counter[Kind], *, exact: bool) -> Kind | None:
    """A kind still wanted that this replica can become where it is."""
    if exact:
        kind = Kind(old.config, old.budget)
        return kind if wanted[kind] > 0 else None
    same = (kind for kind, count in wanted.items() if count > 0 and _shape(kind.config) == _shape(old.config))
    return min(same, default=None)


def _shape(config: ReplicaConfig) -> Shape:
    return config.tp, config.pp, config.fsdp


def _node(replica: Replica, cluster: ClusterSpec) -> int:
    return cluster.node_of(replica.gpus[0])


class _Room:
    """GPUs that are still free, node by node."""

    def __init__(self, cluster: ClusterSpec, taken: Sequence[int]) -> None:
        self._sizes = cluster.sizes
        self._free: list[list[int]] = [[] for _ in self._sizes]
        occupied = set(taken)
        for gpu in range(cluster.gpus):
            if gpu not in occupied:
                self._free[cluster.node_of(gpu)].append(gpu)

    def take(self, tp: int, pp: int) -> tuple[int, ...] | None:
        """GPUs of one replica, stage-major; None (and nothing taken) where there is no room."""
        chosen = self._whole_nodes(tp, pp) if tp > max(self._sizes) else self._inside(tp, pp)
        if chosen is None:
            return None
        taken: list[int] = []
        for node, number in chosen:
            taken += self._free[node][:number]
            del self._free[node][:number]
        return tuple(taken)

    def _inside(self, tp: int, pp: int) -> list[tuple[int, int]] | None:
        """The fullest node with room for all stages, else the emptiest nodes, whole tp groups each."""
        levels = [(len(free), node) for node, free in enumerate(self._free)]
        enough = [level for level in levels if level[0] >= tp * pp]
        if enough:
            return [(min(enough)[1], tp * pp)]
        chosen = []
        for free, node in sorted(levels, key=lambda level: (-level[0], level[1])):
            groups = min(pp, free // tp)
            if groups:
                chosen.append((node, groups * tp))
                pp -= groups
            if not pp:
                return sorted(chosen)
        return None

    def _whole_nodes(self, tp: int, pp: int) -> list[tuple[int, int]] | None:
        """Untouched nodes, each group filled by equal ones."""
        chosen: list[tuple[int, int]] = []
        for size in sorted(set(self._sizes), reverse=True):
            untouched = [node for node, free in enumerate(self._free) if len(free) == self._sizes[node] == size]
            if tp % size == 0 and len(untouched) >= tp // size * pp:
                chosen = [(node, size) for node in untouched[: tp // size * pp]]
                break
        return chosen or None
