"""Kinds: what a replica can be, before it has a place.

A configuration with the tokens that a micro-batch of it may hold. Pipelines also come with smaller micro-batches
(M/2, M/4): they hold shorter sequences only, but fill and drain the pipeline faster, and which is better depends on the
lengths. Recomputation of all activations is a third choice that the paper's space lacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from lobra.schedule import stage_sizes
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from policies.deployment.placement import Kind, most

Recompute = Literal["none", "full"]


@dataclass(frozen=True, slots=True)
class Space:
    """Which kinds a planner may choose from."""

    candidates: tuple[tuple[int, int], ...] | None = None  # (tp, pp) allowed; None: all that the cost model prices
    recompute: Recompute = "none"  # full: each configuration also with every layer recomputed
    budgets: int = 1  # of a pipeline: M, M/2, M/4, ... this many

    def __post_init__(self) -> None:
        if self.recompute not in ("none", "full"):
            raise BadInput(f"deployment: recompute is {self.recompute!r}; choose none or full")
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
        layers = stage_sizes(model.layers, config.pp)[0]
        variants = [config]
        if space.recompute == "full":
            variants.append(ReplicaConfig(config.tp, config.pp, recompute=layers))
        for variant in variants:
            tokens = cost.max_tokens(variant, tenants)
            if tokens > 0 and most(variant, cluster) > 0:
                found.extend(Kind(variant, budget) for budget in _budgets(tokens, variant.pp, space.budgets))
    return tuple(found)


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
