"""Clusters and base models by name."""

from typing import Any

from costmodel.sources import FOLDER, nearest, read_source
from lobra.errors import BadInput
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec

OVERRIDES = (
    "memory_gib",
    "teraflops",
    "memory_gigabytes_per_second",
    "intra_gigabytes_per_second",
    "intra_latency_microseconds",
    "inter_gigabytes_per_second",
    "inter_latency_microseconds",
    "node_sizes",
)


def cluster_spec(name: str, nodes: int, gpus_per_node: int, **overrides: Any) -> ClusterSpec:
    """A cluster of this hardware; overrides change single figures (see OVERRIDES; None: as it is).

    BadInput for an unknown name, with the nearest ones, and for a figure that is not above zero.
    """
    known = read_source(FOLDER / "hardware.yaml", "clusters")["clusters"]
    if name not in known:
        raise BadInput(nearest("cluster", name, known))
    for key in overrides:
        if key not in OVERRIDES:
            raise BadInput(nearest(f"cluster '{name}': overrides", key, OVERRIDES))
    entry = known[name]
    gpu, links = dict(entry["gpu"]), {side: dict(entry[f"{side}_node"]) for side in ("intra", "inter")}
    for key, value in overrides.items():
        if value is None:
            continue
        side, _, figure = key.partition("_")
        if key in gpu:
            gpu[key] = value
        elif side in links:
            links[side][figure] = value
    return ClusterSpec(
        name,
        nodes,
        gpus_per_node,
        GpuSpec(**gpu),
        Link(**links["intra"]),
        Link(**links["inter"]),
        overrides.get("node_sizes"),
    )


def model_spec(name: str) -> ModelSpec:
    """A base model; BadInput for an unknown name, with the nearest ones."""
    known = read_source(FOLDER / "models.yaml", "models")["models"]
    if name not in known:
        raise BadInput(nearest("model", name, known))
    return ModelSpec(name=name, **known[name])


def cluster_names() -> tuple[str, ...]:
    """Every cluster that cluster_spec knows."""
    return tuple(sorted(read_source(FOLDER / "hardware.yaml", "clusters")["clusters"]))


def is_shipped(cluster: ClusterSpec) -> bool:
    """Whether its GPUs and the bandwidth inside its nodes are those of one of the named clusters, not changed since."""
    for entry in read_source(FOLDER / "hardware.yaml", "clusters")["clusters"].values():
        bandwidth = entry["intra_node"]["gigabytes_per_second"]
        if cluster.gpu == GpuSpec(**entry["gpu"]) and cluster.intra_node.gigabytes_per_second == bandwidth:
            return True
    return False


def model_names() -> tuple[str, ...]:
    """Every model that model_spec knows."""
    return tuple(sorted(read_source(FOLDER / "models.yaml", "models")["models"]))
