"""Prices out of a file that `lobra fit` wrote: layer times, what sharing cores costs, and the rest of a step.

Layer times are those of a micro-batch on its own ranks while all others are idle, divided by the layers; embedding and
head are spread over the layers, so a pipeline's stages are priced alike. Where more ranks compute than the profile's
cores can serve, all of them are slower: the file holds the factor that the profile found with so many ranks busy at
once, and it is taken in proportion for fewer. It is one factor for a whole step: that a replica speeds up once another
has finished is not modelled. `rest_seconds`, and `rest_tenant_seconds` for each tenant, are what a step took
beyond forward and backward with no rank waiting for another: synchronisation, update, report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from costmodel.adapters import with_run_factor
from costmodel.context import Choice, shared_prices
from costmodel.layer import LayerPrice
from costmodel.layered import Evidence, LayeredCost, Memory
from costmodel.messages import Messages
from costmodel.sources import field
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape
from lobra.rates import Provenance, Rates
from lobra.spec import ClusterSpec, ModelSpec, Tenant


@dataclass(frozen=True, slots=True)
class ProfiledMemory:
    """Max tokens by tp out of a profile: of a whole model on one stage, so stages of a pipeline hold no less."""

    entries: Mapping[int, int]

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold."""
        del tenants
        return self.entries.get(config.tp, 0)

    def covers(self, config: ReplicaConfig) -> bool:
        """Whether its tp was profiled."""
        return config.tp in self.entries

    def notes(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> tuple[str, ...]:
        """What a reader must know of it."""
        del config, tenants
        return (
            "max tokens from the profile's activation bytes of a whole model on one stage, whoever the tenants are",
        )


@dataclass(frozen=True, slots=True)
class FittedCost:
    """A LayeredCost whose synchronisation was measured too; a `lobra.protocols.CostModel`."""

    layered: LayeredCost
    rest_seconds: float
    tenant_seconds: float = 0.0  # of the rest, for each tenant

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """Configurations it can price."""
        return self.layered.configs()

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold."""
        return self.layered.max_tokens(config, tenants)

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """Prices of micro-batches of these widths."""
        return self.layered.rates(config, widths, shards)

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: Literal["forward", "backward"]) -> float:
        """Seconds of one stage for one micro-batch."""
        return self.layered.stage_seconds(replica, stage, shape, kind)

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Seconds to hand activations to the next stage: nobody measured them, so from the link."""
        return self.layered.transfer_seconds(plan, replica, shape)

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """What a step takes beyond its micro-batches."""
        return self.rest_seconds + self.tenant_seconds * len(plan.tenants)

    def provenance(self, config: ReplicaConfig, tenants: Sequence[Tenant], shards: int = 1) -> Provenance:
        """What the answers rest on."""
        return self.layered.provenance(config, tenants, shards)


def fitted_layers(
    source: Mapping[str, Any], cluster: ClusterSpec
) -> tuple[dict[int, LayerPrice], Evidence, Mapping[int, float]]:
    """Prices by tp, what they rest on, and the factor of each that sharing the cores of a node costs here."""
    share = field(source, "forward_share")
    prices, hull, errors, factors = {}, {}, [], {}
    for fit in field(source, "fits"):
        tp = int(field(fit, "tp"))
        if tp > max(cluster.sizes):
            continue
        factors[tp] = contention(fit, cluster)
        prices[tp] = LayerPrice(
            floor=factors[tp] * float(field(fit, "floor_seconds")),
            fixed=factors[tp] * float(field(fit, "fixed_seconds")),
            run=factors[tp] * float(field(fit, "run_seconds")),
            token=factors[tp] * float(field(fit, "token_seconds")),
            square=factors[tp] * float(field(fit, "square_seconds")),
            forward_linear=float(field(share, "linear")),
            forward_attention=float(field(share, "attention")),
        )
        hull[tp] = (int(field(fit, "tokens")[1]), int(field(fit, "lengths")[1]))
        errors.append(f"tp {tp} {field(fit, 'mean_error'):.1%}")
    notes = [f"mean relative error of the fit: {', '.join(errors)}"]
    if any(factor > 1 for factor in factors.values()):
        told = ", ".join(f"tp {tp} {factor:.2f}" for tp, factor in factors.items())
        notes.append(f"ranks share cores: layer times multiplied by the measured factor ({told})")
    return prices, Evidence(field(source, "status"), field(source, "source"), hull, tuple(notes)), factors


def contention(fit: Mapping[str, Any], cluster: ClusterSpec) -> float:
    """By what a layer is slower with all ranks of the fullest node busy; 1 where the profile did not look."""
    known = fit.get("contention")
    if known is None:
        return 1.0
    tp, busy, most = int(field(fit, "tp")), max(cluster.sizes), int(field(known, "ranks"))
    if most <= tp:
        return 1.0
    return 1 + max(0.0, float(field(known, "factor")) - 1) * max(0, busy - tp) / (most - tp)


def profiled_memory(source: Mapping[str, Any]) -> ProfiledMemory:
    """The file's max tokens; BadInput where it has none."""
    entries = {int(field(fit, "tp")): fit.get("max_tokens") for fit in field(source, "fits")}
    known = {tp: int(tokens) for tp, tokens in entries.items() if tokens}
    if not known:
        raise BadInput(
            "cost file: it holds no max tokens; fit again with max_tokens=NUMBER, or use cost.memory=analytic"
        )
    return ProfiledMemory(known)


def fitted_cost(
    model: ModelSpec,
    cluster: ClusterSpec,
    source: Mapping[str, Any],
    memory: Memory,
    candidates: tuple[ReplicaConfig, ...],
    *,
    messages: Messages | None = None,
    context: Choice = "ulysses",
    run_factor: float = 1.0,
) -> FittedCost:
    """The cost model of such a file; BadInput where it was measured with another model."""
    if field(source, "model") != model.name:
        raise BadInput(f"cost file: it was measured with model '{source['model']}', not with '{model.name}'")
    prices, evidence, _ = fitted_layers(source, cluster)
    told = messages or Messages()
    shared = shared_prices(with_run_factor(prices, run_factor), model, cluster, told, context)
    layered = LayeredCost(
        model,
        cluster,
        shared.prices,
        memory,
        candidates,
        evidence,
        messages=told,
        rings=shared.rings,
        context=context,
    )
    rest, tenant = (float(source.get(key, 0.0)) for key in ("rest_seconds", "rest_tenant_seconds"))
    return FittedCost(layered, rest, tenant)
