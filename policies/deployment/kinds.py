"""Kinds: what a replica can be, before it has a place.

A configuration with the tokens that a micro-batch of it may hold. Pipelines also come with smaller micro-batches
(M/2, M/4): they hold shorter sequences only, but fill and drain the pipeline faster, and which is better depends on the
lengths. Recomputation of some or all activations, and sharing frozen weights among equal replicas, are further choices
that the paper's space lacks. A cost model that cannot price them says so when it is asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from lobra.schedule import stage_sizes
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from policies.deployment.placement import Kind, most

Recompute = Literal["none", "some", "full"]

QUARTERS = (1, 2, 3, 4)  # of a stage's layers, recomputed: finer steps differ by less than what is known of memory


@dataclass(frozen=True, slots=True)
class Space:
    """Which kinds a planner may choose from."""

    candidates: tuple[tuple[int, int], ...] | None = None  # (tp, pp) allowed; None: all that the cost model prices
    recompute: Recompute = "none"  # full: also with every layer recomputed; some: also with a quarter, a half, ...
    budgets: int = 1  # of a pipeline: M, M/2, M/4, ... this many
    fsdp: int = 1  # frozen weights also sharded over 2, 4, ... equal replicas, this many at most

    def __post_init__(self) -> None:
        if self.recompute not in ("none", "some", "full"):
            raise BadInput(f"deployment: recompute is {self.recompute!r}; choose none, some or full")
        if self.fsdp < 1:
            raise BadInput(f"deployment: fsdp is {self.fsdp}; it counts replicas that share weights, 1 or more")
        if not 1 <= self.budgets <= 8:
            raise BadInput(f"deployment: budgets is {self.budgets}; a pipeline has 1 to 8 of them")
        if self.candidates is not None and not self.candidates:
            raise BadInput("deployment: candidates is empty; name configurations as (tp, pp), or leave it out")


def kinds(
    space: Space, model: ModelSpec, cluster: ClusterSpec, tenants: Sequence[Tenant], cost: CostModel
) -> tuple[Kind, ...]:
    """Every kind that holds a token and of which the cluster has room for one; in the cost model's order."""
    found: list[Kind] = []
    for config in _configs(space, cost):
        if config.pp > model.layers:
            continue
        for variant in _variants(config, space, stage_sizes(model.layers, config.pp)[0]):
            if most(variant, cluster) < variant.fsdp:
                continue
            tokens = cost.max_tokens(variant, tenants)
            if tokens > 0:
                found.extend(Kind(variant, budget) for budget in _budgets(tokens, variant.pp, space.budgets))
    return tuple(found)


def _variants(config: ReplicaConfig, space: Space, layers: int) -> Iterator[ReplicaConfig]:
    """The configuration as it is, then recomputing, each also sharing weights."""
    recomputed = {"none": (), "full": (layers,), "some": tuple(-(-layers * part // 4) for part in QUARTERS)}
    for number in dict.fromkeys((0, *recomputed[space.recompute])):
        for power in range(space.fsdp.bit_length()):
            yield replace(config, recompute=number, fsdp=1 << power)


def _configs(space: Space, cost: CostModel) -> tuple[ReplicaConfig, ...]:
    priced = cost.configs()
    if space.candidates is None:
        return priced
    wanted = [ReplicaConfig(tp, pp) for tp, pp in space.candidates]
    for config in wanted:
        check_priced(config, priced)
    return tuple(dict.fromkeys(wanted))


def check_priced(config: ReplicaConfig, priced: Sequence[ReplicaConfig]) -> None:
    """Refuse a configuration that the cost model knows nothing about."""
    if ReplicaConfig(config.tp, config.pp) not in priced:
        raise BadInput(
            f"configuration <{config.tp},{config.pp}> is unknown to the cost model; choose from "
            f"{' '.join(map(str, priced)) or 'none, as it prices nothing'}"
        )


def _budgets(tokens: int, stages: int, number: int) -> list[int]:
    if stages == 1:
        return [tokens]
    return list(dict.fromkeys(max(1, tokens >> halvings) for halvings in range(number)))
