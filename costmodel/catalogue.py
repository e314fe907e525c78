"""From names to a cost model: which form and which memory apply to a model on a cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from costmodel.context import shared_prices
from costmodel.fitted import FittedCost, fitted_cost, fitted_layers, profiled_memory
from costmodel.guard import check_floor_source
from costmodel.hardware import is_shipped, model_names, model_spec
from costmodel.knotted import KnottedCost, head_layers
from costmodel.layer import LayerPrice
from costmodel.layered import Evidence, LayeredCost, Memory
from costmodel.memory import RESERVE, AnalyticMemory, Rounding
from costmodel.memory_executor import ExecutorMemory
from costmodel.paper import PaperCost, paper_coefficients
from costmodel.roofline import TENSOR_EFFICIENCY, roofline_price
from costmodel.sources import find_source, nearest, read_source
from costmodel.table import table_memory
from costmodel.views import read_views, view_note
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from lobra.spec import ClusterSpec, ModelSpec, Tenant

FORMS = ("auto", "floor", "knots", "paper", "roofline", "fitted")
MEMORIES = ("auto", "table", "scaled", "analytic", "executor")
ROUNDINGS = ("auto", "power_of_two", "multiple")
DEEPEST = 16  # pipeline stages; the paper's deepest too
ROOFLINE_NOTE = "nothing was measured on this hardware; the adapters' own kernels, embedding and head are left out"


def cost_model(
    model: ModelSpec,
    cluster: ClusterSpec,
    *,
    form: str = "auto",
    memory: str = "auto",
    configs: Sequence[tuple[int, int]] = (),
    rounding: str = "auto",
    reserve: float = RESERVE,
    file: Path | None = None,
) -> CostModel:
    """The cost model of a model on a cluster.

    form: auto is floor where a fitted source exists for this GPU and model, else roofline; knots plans like floor (or
    fitted, given a file) and plays stages by the finer curves of the same source. memory: auto is the paper's
    table as it stands where it exists (other tenants than the paper's are noted), else analytic; table insists on it;
    scaled scales it down for tenants whose adapters need more memory than the paper's; executor counts what this
    project's executor holds in bfloat16. configs: (tp, pp) to restrict to; (): all. rounding of max tokens: auto is
    powers of two with the table, else multiples of 128. reserve: share of the GPU that the counted memory models leave
    free. file: with form fitted, coefficients of a profile of this model that `lobra fit` wrote; its max tokens replace
    memory auto. BadInput for anything else.
    """
    for what, value, choices in (
        ("form", form, FORMS),
        ("memory", memory, MEMORIES),
        ("rounding", rounding, ROUNDINGS),
    ):
        if value not in choices:
            raise BadInput(nearest(what, value, choices))
    if (form == "fitted") != (file is not None) and not (form == "knots" and file is not None):
        raise BadInput("form: fitted needs a file that `lobra fit` wrote, and no other form takes one")
    if file is not None:
        source = read_source(file, "floor_form")
        check_floor_source(source)
        given = profiled_memory(source) if memory == "auto" else _memory(model, cluster, memory, rounding, reserve)
        tps = [int(fit["tp"]) for fit in source["fits"]]
        planned = fitted_cost(model, cluster, source, given, _candidates(model, cluster, tps, given, configs))
        return _with_knots(planned, source, head=0.0) if form == "knots" else planned
    room = _memory(model, cluster, memory, rounding, reserve)
    layer_source = None if form in ("paper", "roofline") else _source("floor_form", model, cluster)
    if form == "paper":
        source = _need(_source("paper_form", model, cluster), form, model, cluster)
        coefficients = {tp: value for tp, value in paper_coefficients(source).items() if tp <= max(cluster.sizes)}
        candidates = _candidates(model, cluster, coefficients, room, configs)
        return PaperCost(model, coefficients, room, candidates, source["source"])
    if form in ("floor", "knots"):
        _need(layer_source, form, model, cluster)
    prices, evidence = fitted_layers(layer_source, cluster)[:2] if layer_source else _roofline(model, cluster)
    candidates = _candidates(model, cluster, prices, room, configs)
    layered = LayeredCost(model, cluster, shared_prices(prices, model, cluster), room, candidates, evidence)
    return _with_knots(layered, layer_source, head_layers(model)) if form == "knots" and layer_source else layered


def _with_knots(planned: LayeredCost | FittedCost, source: Mapping[str, Any], head: float) -> KnottedCost:
    layered = planned.layered if isinstance(planned, FittedCost) else planned
    factors = fitted_layers(source, layered.cluster)[2]
    return KnottedCost(planned, read_views(source, factors), head, view_note(source))


def least_gpus(model: ModelSpec, cluster: ClusterSpec, tenants: Sequence[Tenant], tokens: int = 1) -> int | None:
    """Fewest GPUs of this kind, in as many nodes as it takes, on which one replica holds so many tokens; None: none
    does.

    What a message says when a model is too large for its cluster, or a sequence too long. No recomputation.
    """
    nodes = -(-max(TENSOR_EFFICIENCY) * DEEPEST // cluster.gpus_per_node)
    larger = replace(cluster, nodes=nodes, node_sizes=None)
    cost = cost_model(model, larger)
    fitting = (config.gpus for config in cost.configs() if cost.max_tokens(config, tenants) >= tokens)
    return min(fitting, default=None)


def possible_configs(model: ModelSpec, cluster: ClusterSpec, tps: Iterable[int]) -> tuple[ReplicaConfig, ...]:
    """Every (tp, pp) that fits the cluster, by GPUs, then tp.

    tp divides the heads (key and value heads may be copied), inside a node or filling whole equal ones; pp divides the
    layers.
    """
    configs: list[ReplicaConfig] = []
    for tp in tps:
        copied = model.kv_heads % tp == 0 or tp % model.kv_heads == 0
        if model.heads % tp or not copied:
            continue
        groups = tensor_groups(cluster, tp)
        depths = [pp for pp in range(1, min(groups, DEEPEST, model.layers) + 1) if model.layers % pp == 0]
        configs.extend(ReplicaConfig(tp, pp) for pp in depths)
    return tuple(sorted(configs, key=lambda config: (config.gpus, config.tp)))


def tensor_groups(cluster: ClusterSpec, tp: int) -> int:
    """How many tensor-parallel groups of this size the cluster has room for."""
    sizes = cluster.sizes
    if tp <= max(sizes):
        return sum(size // tp for size in sizes)
    equal = len(set(sizes)) == 1 and tp % sizes[0] == 0
    return cluster.gpus // tp if equal else 0


def _candidates(
    model: ModelSpec,
    cluster: ClusterSpec,
    tps: Iterable[int],
    memory: Memory,
    wanted: Sequence[tuple[int, int]],
) -> tuple[ReplicaConfig, ...]:
    possible = possible_configs(model, cluster, tps)
    found = tuple(config for config in possible if memory.covers(config) and memory.max_tokens(config, ()) > 0)
    if not wanted:
        return found
    known = {(config.tp, config.pp): config for config in found}
    for pair in wanted:
        if tuple(pair) not in known:
            names = " ".join(str(config) for config in found) or "none"
            raise BadInput(f"configs: <{pair[0]},{pair[1]}> cannot be priced or placed here; choose among {names}")
    return tuple(known[tuple(pair)] for pair in dict.fromkeys(map(tuple, wanted)))  # type: ignore[index]


def _memory(model: ModelSpec, cluster: ClusterSpec, memory: str, rounding: str, reserve: float) -> Memory:
    source = _source("max_tokens", model, cluster) if memory not in ("analytic", "executor") else None
    if memory in ("table", "scaled"):
        _need(source, f"memory={memory}", model, cluster)
    default = "multiple" if source is None else "power_of_two"
    chosen = cast(Rounding, default if rounding == "auto" else rounding)
    if memory == "executor":
        return ExecutorMemory(model, cluster.gpu, rounding=chosen, reserve=reserve)
    analytic = AnalyticMemory(model, cluster.gpu, chosen, reserve)
    return analytic if source is None else table_memory(source, analytic, strict=memory != "scaled")


def _source(kind: str, model: ModelSpec, cluster: ClusterSpec) -> dict[str, Any] | None:
    """The source for this model and GPU, if both are the ones that were measured and not changed since."""
    if model.name not in model_names() or model != model_spec(model.name) or not is_shipped(cluster):
        return None
    return find_source(kind, cluster.gpu.name, model.name)


def _need(source: dict[str, Any] | None, what: str, model: ModelSpec, cluster: ClusterSpec) -> dict[str, Any]:
    if source is None:
        raise BadInput(
            f"{what}: there is no such source for model '{model.name}' on GPU '{cluster.gpu.name}' as they are given; "
            "use form=auto or form=roofline, and memory=auto"
        )
    return source


def _roofline(model: ModelSpec, cluster: ClusterSpec) -> tuple[dict[int, LayerPrice], Evidence]:
    tps = [tp for tp in TENSOR_EFFICIENCY if tensor_groups(cluster, tp) and model.heads % tp == 0]
    prices = {tp: roofline_price(model, cluster, tp) for tp in tps}
    source = f"operations and bytes of '{model.name}' on '{cluster.gpu.name}', assumed efficiencies"
    return prices, Evidence("roofline", source, {}, (ROOFLINE_NOTE,))
