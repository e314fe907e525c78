"""Placement: from how many replicas of each kind to which GPUs each of them has.

Kinds are placed by tp, largest first (paper, section 5 of the released code does the same); a tp group stays inside one
node, or fills whole nodes where no node is large enough. A replica goes to the fullest node that still has room for all
of it, otherwise to as few nodes as possible, with its stages in node order, so that few neighbouring stages talk over
the slow link. Where every tp divides the next larger one, this never fails while the nodes have room; for other mixes
it is a heuristic (best fit, largest first) and may refuse what an exhaustive search could place. One pass with a
bucket queue over nodes: linear in replicas and GPUs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, pairwise

from lobra.errors import Infeasible
from lobra.plan import Replica, ReplicaConfig
from lobra.spec import ClusterSpec, positive


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A configuration with the tokens that its micro-batches may hold."""

    config: ReplicaConfig
    budget: int

    def __post_init__(self) -> None:
        positive(f"kind {self.config}", budget=self.budget)

    def __str__(self) -> str:
        return f"{self.config}/{self.budget}"


Counts = Sequence[tuple[Kind, int]]


def place(counts: Counts, cluster: ClusterSpec) -> tuple[Replica, ...]:
    """This many replicas of each kind, each with its GPUs; the GPUs left over stay idle. Infeasible says what lacks."""
    wanted = sum(kind.config.gpus * count for kind, count in counts)
    if wanted > cluster.gpus:
        raise Infeasible(
            f"the replicas need {wanted} GPUs, but cluster '{cluster.name}' has {cluster.gpus}; "
            f"at most {wording(trimmed(counts, cluster)) or 'none of them'} would fit"
        )
    nodes = _Nodes(cluster)
    replicas = []
    for kind, count in sorted(counts, key=_largest_first):
        for placed in range(count):
            gpus = nodes.take(kind.config.tp, kind.config.pp)
            if gpus is None:
                raise Infeasible(
                    f"only {placed} of {count} replicas {kind.config} could be placed on cluster '{cluster.name}' with "
                    f"nodes of {_sizes(cluster)} GPUs: a tp group stays inside one node or fills whole nodes"
                )
            replicas.append(Replica(kind.config, gpus, kind.budget))
    return tuple(replicas)


def trimmed(counts: Counts, cluster: ClusterSpec) -> tuple[tuple[Kind, int], ...]:
    """The part of a wish that fits: kinds served in the order given, never more of a kind than asked."""
    kept: list[tuple[Kind, int]] = []
    left = cluster.gpus
    for kind, count in counts:
        number = min(count, left // kind.config.gpus)
        if number:
            kept.append((kind, number))
            left -= number * kind.config.gpus
    return tuple(kept)


def most(config: ReplicaConfig, cluster: ClusterSpec) -> int:
    """How many replicas of one configuration the cluster has room for."""
    if config.tp > max(cluster.sizes):
        nodes, replicas = _Nodes(cluster), 0
        while nodes.take(config.tp, config.pp) is not None:
            replicas += 1
        return replicas
    return sum(size // config.tp for size in cluster.sizes) // config.pp


def wording(counts: Counts) -> str:
    """Counts as text: `8,1x2;1,1,r32,fsdp4x16`."""
    return ";".join(f"{str(kind.config).strip('<>')}x{count}" for kind, count in counts)


def inter_node_hops(replica: Replica, cluster: ClusterSpec) -> int:
    """How many neighbouring stages live on different nodes."""
    firsts = [cluster.node_of(replica.gpus[stage * replica.config.tp]) for stage in range(replica.config.pp)]
    return sum(one != next_one for one, next_one in pairwise(firsts))


def _largest_first(item: tuple[Kind, int]) -> tuple[int, int, int, int]:
    kind = item[0]
    return -kind.config.tp, -kind.config.pp, kind.config.recompute, -kind.budget


def _sizes(cluster: ClusterSpec) -> str:
    return ", ".join(f"{number} x {size}" for size, number in sorted(Counter(cluster.sizes).items(), reverse=True))


class _Nodes:
    """The GPUs still free, node by node; a node hands out its GPUs from the first to the last."""

    def __init__(self, cluster: ClusterSpec) -> None:
        self._sizes = cluster.sizes
        self._free = list(self._sizes)
        self._ends = list(accumulate(self._sizes))
        self._whole: dict[int, list[int]] = {}  # node ids by size, largest size first, the first node at the end
        for node in sorted(range(len(self._sizes)), key=lambda node: (-self._sizes[node], -node)):
            self._whole.setdefault(self._sizes[node], []).append(node)
        self._queues: list[list[int]] = [[] for _ in range(max(self._sizes) + 1)]  # node ids by free GPUs, some stale
        for node, free in enumerate(self._free):
            self._queues[free].append(node)

    def take(self, tp: int, pp: int) -> tuple[int, ...] | None:
        """GPUs of one replica, stage-major; None (and nothing taken) where there is no room."""
        if tp > max(self._sizes):
            return self._take_whole_nodes(tp, pp)
        chosen = self._choose(tp, pp)
        if chosen is None:
            return None
        return tuple(gpu for node, groups in sorted(chosen) for gpu in self._hand_out(node, groups * tp))

    def _choose(self, tp: int, pp: int) -> list[tuple[int, int]] | None:
        """Nodes with the tp groups each gives: one node if one is large enough, otherwise the emptiest ones first."""
        chosen: list[tuple[int, int]] = []
        while pp > 0:
            node = self._pop(range(pp * tp, len(self._queues)))
            if node is None:
                node = self._pop(range(min(pp * tp, len(self._queues)) - 1, tp - 1, -1))
            if node is None:
                for back, _ in chosen:
                    heappush(self._queues[self._free[back]], back)
                return None
            groups = min(pp, self._free[node] // tp)
            chosen.append((node, groups))
            pp -= groups
        return chosen

    def _pop(self, levels: Iterable[int]) -> int | None:
        for free in levels:
            queue = self._queues[free]
            while queue:
                node = heappop(queue)
                if self._free[node] == free:
                    return node
        return None

    def _hand_out(self, node: int, number: int) -> range:
        start = self._ends[node] - self._free[node]
        self._free[node] -= number
        heappush(self._queues[self._free[node]], node)
        return range(start, start + number)

    def _take_whole_nodes(self, tp: int, pp: int) -> tuple[int, ...] | None:
        """Used before anything smaller is placed: every node is entirely free or entirely taken."""
        left = {size: len(nodes) for size, nodes in self._whole.items()}
        groups = []
        for _ in range(pp):
            sizes = _filling(left, tp)
            if sizes is None:
                return None
            groups.append(sizes)
            for size in sizes:
                left[size] -= 1
        nodes = [node for sizes in groups for node in sorted(self._whole[size].pop() for size in sizes)]
        return tuple(gpu for node in nodes for gpu in self._hand_out(node, self._sizes[node]))


def _filling(left: dict[int, int], gpus: int) -> tuple[int, ...] | None:
    """Sizes of nodes, the fewest, that sum to exactly `gpus`; left[size] nodes of each size are there."""
    best: list[tuple[int, ...] | None] = [(), *([None] * gpus)]
    for size, nodes in left.items():
        for _ in range(min(nodes, gpus // size)):
            for total in range(gpus, size - 1, -1):
                before, now = best[total - size], best[total]
                if before is not None and (now is None or len(before) + 1 < len(now)):
                    best[total] = (*before, size)
    return best[gpus]
