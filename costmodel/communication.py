"""Messages between GPUs by latency and bandwidth, where nobody measured them; and which link a group of GPUs uses.

Rings: a member of an all-reduce of B bytes sends 2 (n - 1) / n B, of an all-gather (n - 1) / n B. Achieved bandwidth is
a share of the nominal one: 230 of 300 GB/s on A100 and 150 of 200 GB/s on A800, so 0.77 everywhere (kernel tables of
NCCL on A100: 0.23 ms for 16 MiB among eight GPUs). Latency is paid per hop.
"""

from math import ceil, log2

from lobra.plan import ReplicaConfig
from lobra.spec import ClusterSpec, Link

ACHIEVED = 0.77  # of a link's nominal bandwidth


def bytes_per_second(link: Link) -> float:
    """Bandwidth that messages really get."""
    return link.gigabytes_per_second * 1e9 * ACHIEVED


def point_to_point_seconds(link: Link, size: float) -> float:
    """One message of so many bytes."""
    return size / bytes_per_second(link) + link.latency_microseconds * 1e-6


def ring_seconds(link: Link, size: float, members: int) -> float:
    """All-reduce on a ring: the sum of so many bytes over all members, left at each of them; nothing for one member."""
    if members <= 1:
        return 0.0
    hops = 2 * (members - 1)
    return hops / members * size / bytes_per_second(link) + hops * link.latency_microseconds * 1e-6


def all_reduce_seconds(link: Link, size: float, members: int) -> float:
    """All-reduce on a ring or, where many members make that slow, on a tree: the faster of both."""
    if members <= 1:
        return 0.0
    hops = 2 * ceil(log2(members))
    tree = 2 * size / bytes_per_second(link) + hops * link.latency_microseconds * 1e-6
    return min(ring_seconds(link, size, members), tree)


def all_gather_seconds(link: Link, size: float, members: int) -> float:
    """So many bytes in all, a part at each member, brought to all of them; nothing for one member."""
    return ring_seconds(link, size, members) / 2


def all_to_all_seconds(link: Link, size: float, members: int) -> float:
    """Each member holds so many bytes and keeps only its own part; direct messages, nothing for one member."""
    if members <= 1:
        return 0.0
    return (members - 1) / members * size / bytes_per_second(link) + link.latency_microseconds * 1e-6


def smallest_node(cluster: ClusterSpec) -> int:
    """GPUs of the smallest node: a group of more may have to cross nodes."""
    return cluster.gpus_per_node if cluster.node_sizes is None else min(cluster.node_sizes)


def tensor_link(cluster: ClusterSpec, tp: int) -> Link:
    """The link of a tensor-parallel group: inside a node, or, filling whole nodes, all of a node's adapters together.

    A ring over several nodes runs on every adapter at once, so its bandwidth is the node's, at most that inside a node.
    """
    node = smallest_node(cluster)
    if tp <= node:
        return cluster.intra_node
    inside, between = cluster.intra_node, cluster.inter_node
    share = 1 / node  # of the hops of such a ring cross nodes
    return Link(
        min(inside.gigabytes_per_second, between.gigabytes_per_second * node),
        inside.latency_microseconds + share * (between.latency_microseconds - inside.latency_microseconds),
    )


def crosses_nodes(cluster: ClusterSpec, config: ReplicaConfig, count: int) -> bool:
    """Whether so many replicas, placed one after another, need more GPUs than the smallest node has."""
    return config.gpus * count > smallest_node(cluster)
