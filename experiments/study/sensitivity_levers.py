"""What is turned in the sensitivity study, each lever alone, and the grid on which 60.67 % is looked for.

A lever has a lower and an upper position; some have one. Memory is counted, not looked up, so that it follows its
lever, and rounded down to powers of two as the published table is; what the rounding does is a lever itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from experiments.study.point import Point
from experiments.study.sensitivity_playing import weighed

Overrides = tuple[str, ...]
BASE, LOW, HIGH = "base", "low", "high"
PADDED, PACKED, LOBRA, LOBRA_PACKED = POLICIES = ("task_fused", "task_fused_packed", "lobra", "lobra_packed")
PRICES: Overrides = ("cost=roofline", "cost.memory=analytic", "cost.rounding=power_of_two")
STEPS = 8
JUDGED: Overrides = ("policy.deployment.batches=2",)
FEW: Overrides = (*JUDGED, "policy.deployment.pool=3", "policy.deployment.exchanges=4")
PLANNED: Mapping[str, Overrides] = {
    name: (f"policy={name}", *(FEW if name.startswith("lobra") else JUDGED)) for name in POLICIES
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One of the paper's settings, and the figures that levers start from."""

    title: str
    between: float  # GB/s between nodes, one direction and GPU
    inside: float  # GB/s inside a node
    memory: int  # GiB
    batch: int  # sequences a step
    nodes: int


@dataclass(frozen=True, slots=True)
class Lever:
    """What is turned, and both positions: how they are told, and overrides (none: there is no such position)."""

    title: str
    low: tuple[str, Overrides] | None
    high: tuple[str, Overrides] | None


SETTINGS = {
    "7b": Setting("7B, 16 A100-40GB", 25.0, 300.0, 40, 832, 2),
    "70b": Setting("70B, 64 A800-80GB", 12.5, 200.0, 80, 1696, 8),
}


def levers(at: Setting) -> dict[str, Lever]:
    """All levers of a setting, by short names."""
    return {
        "between": _numbers(
            "between nodes, GB/s", "cluster.inter_gigabytes_per_second", at.between / 2, at.between * 4
        ),
        "inside": _numbers("inside nodes, GB/s", "cluster.intra_gigabytes_per_second", at.inside / 2, at.inside * 2),
        "memory": _numbers("memory of a GPU, GiB", "cluster.memory_gib", 0.8 * at.memory, 2 * at.memory),
        "tensor": _numbers("tensor efficiency a doubling", "cost.tensor_efficiency", 0.9, 1.1),
        "launch": _numbers("fixed parts of a layer, times", "cost.launch", 0.33, 3),
        "batch": _numbers("sequences a step", "workload.batch_size", at.batch // 4, at.batch * 2),
        "nodes": _numbers("nodes of 8 GPUs", "cluster.nodes", at.nodes // 2, at.nodes * 2),
        "longest": Lever("longest sequence, tokens", ("8192", ("workload.max_length=8192",)), None),
        "spread": _numbers("length CV, times", "workload.spread", 0.7, 1.3),
        "skew": _numbers("skew, power", "workload.skew", 0.7, 1.3),
        "meetings": Lever("meetingbank's law", None, ("log-normal", ("workload.meetingbank=lognormal",))),
        "real": Lever("lengths", None, ("real", ("workload=real5", f"workload.batch_size={at.batch}"))),
        "rounding": Lever("max tokens in", None, ("128s", ("cost.rounding=multiple",))),
    }


def _numbers(title: str, key: str, low: float, high: float) -> Lever:
    return Lever(title, (f"{low:g}", (f"{key}={low:g}",)), (f"{high:g}", (f"{key}={high:g}",)))


def turned(setting: str) -> Iterator[Point]:
    """The setting as it is, then every lever's positions."""
    start = (f"experiment=paper_{setting}", f"steps={STEPS}", *PRICES)
    yield Point(f"{setting}_{BASE}", start, PLANNED, weighed)
    for name, lever in levers(SETTINGS[setting]).items():
        for side, position in ((LOW, lever.low), (HIGH, lever.high)):
            if position is not None:
                yield Point(f"{setting}_{name}_{side}", (*start, *position[1]), PLANNED, weighed)


GRID = "70b_grid"
BETWEEN = (5.0, 12.5, 25.0, 50.0, 100.0)  # GB/s
EFFICIENCY = (0.85, 0.95, 1.05)  # of a doubling
MEMORY = (64, 80, 128)  # GiB


def grid() -> Iterator[Point]:
    """70B over bandwidth, tensor efficiency and memory; padded policies alone."""
    padded = {name: PLANNED[name] for name in (PADDED, LOBRA)}
    for memory, efficiency, between in product(MEMORY, EFFICIENCY, BETWEEN):
        yield Point(
            f"{GRID}_{memory}_{efficiency:g}_{between:g}",
            (
                "experiment=paper_70b",
                "steps=4",
                *PRICES,
                f"cluster.memory_gib={memory}",
                f"cost.tensor_efficiency={efficiency:g}",
                f"cluster.inter_gigabytes_per_second={between:g}",
            ),
            padded,
            weighed,
            {"memory": memory, "efficiency": efficiency, "between": between},
        )


def small() -> Iterator[Point]:
    """A quick setting with one lever and a grid of four points."""
    start = ("experiment=smoke", "steps=2", *PRICES)
    quick = {
        name: (f"policy={name}", "policy.deployment.batches=1", *few)
        for name, few in ((PADDED, ()), (PACKED, ()), *((each, FEW[1:]) for each in (LOBRA, LOBRA_PACKED)))
    }
    yield Point(f"small_{BASE}", start, quick, weighed)
    yield Point(f"small_spread_{HIGH}", (*start, "workload.spread=1.3"), quick, weighed)
    padded = {name: quick[name] for name in (PADDED, LOBRA)}
    for efficiency, between in product((0.8, 1.0), (12.5, 25.0)):
        where = (f"cost.tensor_efficiency={efficiency:g}", f"cluster.inter_gigabytes_per_second={between:g}")
        options = {"memory": 40, "efficiency": efficiency, "between": between}
        yield Point(f"small_grid_40_{efficiency:g}_{between:g}", (*start, *where), padded, weighed, options)
