"""Refusals: why no plan exists, and what would make one possible."""

from collections.abc import Sequence

from lobra.errors import BadInput, Infeasible
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from policies.deployment.expected import LongestSequence
from policies.deployment.placement import Kind

_WIDEST_TP = 16  # two nodes of eight: the widest in the paper


def no_kind_fits(model: ModelSpec, cluster: ClusterSpec, tenants: Sequence[Tenant], cost: CostModel) -> Infeasible:
    """Not even the weights fit anywhere on this cluster."""
    larger = smallest_holding(1, model, tenants, cost)
    if larger is None:
        way_out = "take GPUs with more memory, or a smaller model"
    elif larger.gpus > cluster.gpus:
        way_out = f"the smallest that would do has {larger.gpus} GPUs, as {larger}"
    else:
        way_out = f"{larger} would do, but is not among the candidates or has no place on these nodes"
    return Infeasible(
        f"model '{model.name}' does not fit on the {cluster.gpus} GPUs of cluster '{cluster.name}' in any "
        f"configuration; {way_out}"
    )


def too_long(
    longest: LongestSequence,
    held: Kind,
    replicas: int,
    *,
    model: ModelSpec,
    cluster: ClusterSpec,
    tenants: Sequence[Tenant],
    cost: CostModel,
) -> Infeasible:
    """No replica holds the longest sequence; `held` is the kind that holds most, `replicas` of them together."""
    where = f"the longest that fits is {held.budget * replicas}, on {held.config}"
    if replicas > 1:
        where += f" x {replicas} together"
    larger = smallest_holding(longest.tokens, model, tenants, cost)
    way_out = "lower its context_limit"
    if larger is not None and larger.gpus > cluster.gpus:
        way_out += f" or take {larger.gpus} GPUs: {larger} holds it"
    elif larger is not None:
        way_out += f" or admit {larger}, which holds it"
    return Infeasible(
        f"tenant '{longest.tenant}' may bring a sequence of {longest.tokens} tokens ({longest.reason}), but on cluster "
        f"'{cluster.name}' {where}; {way_out}"
    )


def smallest_holding(tokens: int, model: ModelSpec, tenants: Sequence[Tenant], cost: CostModel) -> ReplicaConfig | None:
    """The configuration with fewest GPUs, on a cluster of any size, whose micro-batch holds that many tokens.

    Asks the cost model beyond this cluster: tp and pp double up to 16 and to the layers. None where it cannot tell.
    """
    widths = [1 << power for power in range(_WIDEST_TP.bit_length())]
    depths = [1 << power for power in range(model.layers.bit_length())]
    every = sorted((ReplicaConfig(tp, pp) for tp in widths for pp in depths), key=lambda config: (config.gpus, config))
    return next((config for config in every if _holds(config, tokens, tenants, cost)), None)


def _holds(config: ReplicaConfig, tokens: int, tenants: Sequence[Tenant], cost: CostModel) -> bool:
    try:
        return cost.max_tokens(config, tenants) >= tokens
    except (BadInput, Infeasible, KeyError):  # a table of measurements knows the configurations measured, no others
        return False
