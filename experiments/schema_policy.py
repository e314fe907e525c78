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
class Packed:
    """Packing without padding."""

    kind: str = "packed"
    class_step: int = 256
    fill: float = 0.97
    round_to: int = 1


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
class Shared:
    """Micro-batches shared by groups of replicas (context parallelism)."""

    kind: str = "shared"
    shards: int | None = None  # replicas a group; none given: as many as suit the step
    work: int = 160
    repair: int = 0


@dataclass
class Homogeneous:
    """The best single configuration."""

    kind: str = "homogeneous"
    recompute: str = "none"
    shared: bool = False
    budgets: int = 1
    candidates: list[list[int]] | None = None
    batches: int = 4
    longest: str = "limit"


@dataclass
class Heterogeneous:
    """The best mix of configurations."""

    kind: str = "heterogeneous"
    recompute: str = "none"
    solver: str = "highs"
    candidates: list[list[int]] | None = None
    budgets: int = 3
    batches: int = 4
    pool: int = 12
    expectation: str = "batches"
    time_limit_seconds: float = 10.0
    longest: str = "limit"


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
class Policy:
    """A policy names its four parts; each part owns its knobs."""

    name: str = MISSING
    published: str = MISSING  # which system of the paper it stands for: fused, sequential or lobra
    grouping: Any = MISSING
    deployment: Any = MISSING
    batching: Any = MISSING
    dispatch: Any = MISSING
