"""Mutable twins of policies and of their parts, for Hydra to check; each part owns its knobs."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING


@dataclass
class Together:
    """All tenants in every step."""

    kind: str = "together"


@dataclass
class OneByOne:
    """Each tenant alone, one after another."""

    kind: str = "one_by_one"


@dataclass
class Fixed:
    """Padding to the same widths in every step."""

    kind: str = "fixed"
    widths: list[int] = MISSING
    align: bool = False


@dataclass
class Dynamic:
    """Padding to the best widths of each batch."""

    kind: str = "dynamic"
    number: int = 16
    step: int = 16


@dataclass
class Portfolio:
    """Padding to the best of several bucketings, for the batch and the plan."""

    kind: str = "portfolio"
    number: int = 32
    step: int = 16


@dataclass
class Packed:
    """Packing without padding."""

    kind: str = "packed"
    class_step: int = 256
    fill: float = 0.97
    round_to: int = 1
    align: str = "row"


@dataclass
class Uniform:
    """The same share to every replica."""

    kind: str = "uniform"


@dataclass
class Cheapest:
    """Each sequence to the cheapest replica that holds it."""

    kind: str = "cheapest"


@dataclass
class Balanced:
    """Equal finishing times."""

    kind: str = "balanced"
    work: int = 160  # exchanges tried after the first descent
    repair: int = 0  # exchanges of single sequences tried on formed micro-batches
    split: str = "even"


@dataclass
class PackedPipeline:
    """Equal finishing times where rows are packed, by quotas, longest first and exact repair."""

    kind: str = "packed_pipeline"
    tries: int = 24
    corrections: int = 2


@dataclass
class Shared:
    """Micro-batches shared by groups of replicas (context parallelism)."""

    kind: str = "shared"
    shards: int | None = None  # replicas a group; none given: as many as suit the step
    work: int = 160
    repair: int = 0


@dataclass
class Flexible:
    """Micro-batches shared by groups of several sizes in one step, for the sequences that need it."""

    kind: str = "flexible"
    largest: int | None = None  # replicas of a group at most; none given: as many as there are
    work: int = 160
    repair: int = 0


@dataclass
class Homogeneous:
    """The best single configuration."""

    kind: str = "homogeneous"
    recompute: str = "none"
    budgets: int = 1
    fsdp: int = 1
    candidates: list[list[int]] | None = None
    batches: int = 4
    longest: str = "limit"
    groups: int | None = 1


@dataclass
class Heterogeneous:
    """The best mix of configurations."""

    kind: str = "heterogeneous"
    recompute: str = "none"
    fsdp: int = 1
    solver: str = "highs"
    candidates: list[list[int]] | None = None
    budgets: int = 3
    batches: int = 4
    pool: int = 12
    exchanges: int = 24
    expectation: str = "sampled"
    time_limit_seconds: float = 60.0
    longest: str = "limit"
    groups: int = 1


@dataclass
class Paper:
    """The plans that the paper's authors published: by model and system, and by tenant where they train one by one."""

    kind: str = "paper"
    plans: dict[str, dict[str, str]] = MISSING
    tenants: dict[str, dict[str, str]] = MISSING
    batches: int = 4
    longest: str = "limit"


@dataclass
class Given:
    """One plan, whatever the workload: tp,pp x count, kind by kind."""

    kind: str = "given"
    replicas: str = "1,1x1"
    batches: int = 4
    longest: str = "limit"


@dataclass
class AdaptiveOrder:
    """No flush between steps: groups of adapters, packed together, one group after another."""

    kind: str = "adaptive"
    window: int = 2  # batches planned at once
    tile: int = 128  # tokens; an adapter's share of a micro-batch is rounded up to a multiple
    capacity: int | None = None  # tokens of a micro-batch; none given: the replica's budget
    work: int = 1000  # of the local search: for a batch and each of three beginnings


@dataclass
class RoundRobin:
    """No flush between steps: adapters take turns, each with micro-batches of its own."""

    kind: str = "round_robin"
    window: int = 2  # batches among which an adapter may work ahead
    tile: int = 1
    capacity: int | None = None


@dataclass
class Policy:
    """A policy names its four parts; each part owns its knobs."""

    name: str = MISSING
    published: str = MISSING  # which system of the paper it stands for: fused, sequential or lobra
    grouping: Any = MISSING
    deployment: Any = MISSING
    batching: Any = MISSING
    dispatch: Any = MISSING
    order: Any = None  # of micro-batches, where pipelines are not flushed between steps
