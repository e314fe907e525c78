"""What is given: hardware, model, tenants and the sequences they bring."""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lobra.errors import BadInput

OverlongPolicy = Literal["reject", "truncate", "drop"]
LearningRateSchedule = Literal["constant", "linear", "cosine"]

TARGET_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TENANT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def positive(owner: str, **fields: float) -> None:
    """Refuse any of the named fields that is not above zero."""
    for field, value in fields.items():
        if not 0 < value < float("inf"):
            raise BadInput(f"{owner}: {field} is {value!r}; it must be a finite number above 0")


@dataclass(frozen=True, slots=True)
class Link:
    """A way between GPUs; bandwidth in 10^9 bytes per second and direction, latency per message."""

    gigabytes_per_second: float
    latency_microseconds: float

    def __post_init__(self) -> None:
        positive("link", gigabytes_per_second=self.gigabytes_per_second)
        if not 0 <= self.latency_microseconds < float("inf"):
            raise BadInput(f"link: latency_microseconds is {self.latency_microseconds!r}; it must not be negative")


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One accelerator; teraflops are the dense bfloat16 peak, memory in GiB (2^30 bytes)."""

    name: str
    memory_gib: float
    teraflops: float
    memory_gigabytes_per_second: float

    def __post_init__(self) -> None:
        positive(
            f"gpu '{self.name}'",
            memory_gib=self.memory_gib,
            teraflops=self.teraflops,
            memory_gigabytes_per_second=self.memory_gigabytes_per_second,
        )


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Nodes of equal GPUs; global rank g lives on node g // gpus_per_node unless node_sizes says otherwise."""

    name: str
    nodes: int
    gpus_per_node: int
    gpu: GpuSpec
    intra_node: Link
    inter_node: Link
    node_sizes: tuple[int, ...] | None = None  # GPUs of each node where they differ

    def __post_init__(self) -> None:
        positive(f"cluster '{self.name}'", nodes=self.nodes, gpus_per_node=self.gpus_per_node)
        if self.node_sizes is not None and (len(self.node_sizes) != self.nodes or min(self.node_sizes) < 1):
            raise BadInput(
                f"cluster '{self.name}': node_sizes is {self.node_sizes}; give {self.nodes} sizes, each >= 1"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """GPUs of each node."""
        return self.node_sizes if self.node_sizes is not None else (self.gpus_per_node,) * self.nodes

    @property
    def gpus(self) -> int:
        """GPUs of the whole cluster: what a step is billed for."""
        return self.nodes * self.gpus_per_node if self.node_sizes is None else sum(self.node_sizes)

    def node_of(self, gpu: int) -> int:
        """The node on which a global rank lives."""
        if self.node_sizes is None:
            return gpu // self.gpus_per_node
        for node, size in enumerate(self.node_sizes):
            if gpu < size:
                return node
            gpu -= size
        raise BadInput(f"cluster '{self.name}' has {self.gpus} GPUs; there is no GPU with that rank")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A Llama-architecture base model, frozen in training."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied_embeddings: bool = False

    def __post_init__(self) -> None:
        positive(
            f"model '{self.name}'",
            layers=self.layers,
            hidden=self.hidden,
            intermediate=self.intermediate,
            heads=self.heads,
            kv_heads=self.kv_heads,
            vocabulary=self.vocabulary,
        )
        if self.hidden % self.heads:
            raise BadInput(f"model '{self.name}': hidden {self.hidden} is not a multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise BadInput(f"model '{self.name}': heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")

    @property
    def head_size(self) -> int:
        """Elements of one attention head."""
        return self.hidden // self.heads

    @property
    def layer_parameters(self) -> int:
        """Weights of one transformer block: attention, gated feed-forward, two norms."""
        attention = self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def parameters(self) -> int:
        """Weights of the whole model, embedding and head included."""
        tables = (1 if self.tied_embeddings else 2) * self.vocabulary * self.hidden
        return self.layers * self.layer_parameters + tables + self.hidden


@dataclass(frozen=True, slots=True)
class Tenant:
    """One fine-tuning job: an adapter and everything its training needs. The name is data, never a path or code."""

    name: str
    batch_size: int
    context_limit: int
    overlong: OverlongPolicy = "reject"
    rank: int = 16
    alpha: float = 16.0
    rslora: bool = False  # scale by alpha / sqrt(rank) instead of alpha / rank
    target_modules: tuple[str, ...] = TARGET_MODULES
    dropout: float = 0.0
    init_seed: int = 0
    learning_rate: float = 1e-4
    schedule: LearningRateSchedule = "constant"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    clip_norm: float | None = None
    source: str = ""  # where its sequences come from, for people

    def __post_init__(self) -> None:
        if not TENANT_NAME.fullmatch(self.name):
            raise BadInput(
                f"tenant {self.name!r}: a name is 1 to 63 of a-z, 0-9, '.', '_', '-', and begins with a letter or digit"
            )
        owner = f"tenant '{self.name}'"
        positive(owner, batch_size=self.batch_size, context_limit=self.context_limit, rank=self.rank)
        positive(owner, alpha=self.alpha, learning_rate=self.learning_rate)
        if self.overlong not in ("reject", "truncate", "drop"):
            raise BadInput(f"{owner}: overlong is {self.overlong!r}; choose reject, truncate or drop")
        if self.schedule not in ("constant", "linear", "cosine"):
            raise BadInput(f"{owner}: schedule is {self.schedule!r}; choose constant, linear or cosine")
        if not 0 <= self.dropout < 1:
            raise BadInput(f"{owner}: dropout is {self.dropout!r}; it must be in [0, 1)")
        if not self.target_modules or len(set(self.target_modules)) != len(self.target_modules):
            raise BadInput(f"{owner}: target_modules is {self.target_modules}; name each module once, at least one")
        if self.warmup_steps < 0 or self.weight_decay < 0:
            raise BadInput(
                f"{owner}: warmup_steps {self.warmup_steps} and weight_decay {self.weight_decay} must not be negative"
            )
        if self.clip_norm is not None:
            positive(owner, clip_norm=self.clip_norm)


def check_tenants(tenants: tuple[Tenant, ...]) -> None:
    """Refuse a tenant set that is empty or in which two names are the same."""
    if not tenants:
        raise BadInput("tenants: there is none; give at least one tenant")
    seen: set[str] = set()
    for tenant in tenants:
        if tenant.name in seen:
            raise BadInput(f"tenants: the name '{tenant.name}' stands twice; names must differ")
        seen.add(tenant.name)


class SequenceRef(NamedTuple):
    """One training sequence: the index-th of its tenant, after the over-long policy was applied."""

    tenant: int  # index into the plan's tenants
    index: int  # type: ignore[assignment]  # the field's name; tuple.index is not used on it
    length: int  # tokens
    labels: int  # tokens that carry loss
