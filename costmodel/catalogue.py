"""From names to a cost model: which form and which memory apply to a model on a cluster.

form: auto is knots where a fitted source exists for this GPU and model, else roofline; both have the output head on
the last stage. knots plans by the floor form (or fitted, given a file, which has its head spread over its layers) and
plays stages by the finer curves of the same source. floor is layers alone: the fitted floor form, for planner and
simulator alike, without a head. fitted takes a file of coefficients that `lobra fit` wrote of a profile of this model;
its max tokens replace memory auto.
memory: auto is the paper's table as it stands where it exists (other tenants than the paper's are noted), else
analytic; table insists on it; scaled scales it down for tenants whose adapters need more memory than the paper's;
executor counts what this project's executor holds in bfloat16. rounding of max tokens: auto is powers of two with the
table, else multiples of 128.
messages: auto takes curves of messages inside nodes where this GPU was measured; measured takes those between nodes
too; formula takes bandwidths alone. context: what groups of replicas that share a micro-batch do, ulysses, ring, or
the cheapest of both for each tensor-parallel and group size.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from costmodel.adapters import (
    Adapters,
    curves_with_run_factor,
    refuse_kernels,
    views_with_adapters,
    with_adapters,
)
from costmodel.context import Choice, shared_prices
from costmodel.efficiency import efficient_layer, known_efficiency
from costmodel.fitted import FittedCost, fitted_cost, fitted_layers, profiled_memory
from costmodel.guard import check_floor_source
from costmodel.hardware import is_shipped, model_names, model_spec
from costmodel.knotted import KnottedCost, head_layers
from costmodel.layer import LayerPrice
from costmodel.layered import Evidence, LayeredCost, Memory
from costmodel.memory import RESERVE, AnalyticMemory, Rounding
from costmodel.memory_executor import ExecutorMemory
from costmodel.messages import Messages, messages_of
from costmodel.paper import PaperCost, paper_coefficients
from costmodel.roofline import TENSOR_EFFICIENCY, roofline_head, roofline_price
from costmodel.sources import find_source, nearest, read_source
from costmodel.table import table_memory
from costmodel.views import Directions, difference_note, read_views, view_note
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.protocols import CostModel
from lobra.spec import ClusterSpec, ModelSpec, Tenant

FORMS = ("auto", "floor", "knots", "paper", "roofline", "fitted")
MEMORIES = ("auto", "table", "scaled", "analytic", "executor")
ROUNDINGS = ("auto", "power_of_two", "multiple")
DEEPEST = 16  # pipeline stages; the paper's deepest too
EFFICIENCY_NOTE = "nothing was measured of this model on this hardware; launches of eager kernels are left out"
ROOFLINE_NOTE = "nothing was measured on this hardware; embedding and loss are left out"


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
    messages: str = "auto",
    context: str = "ulysses",
    adapters: Adapters | None = None,
) -> CostModel:
    """The cost model of a model on a cluster; what every choice means stands at the top of this file.

    configs: (tp, pp) to restrict to; (): all. reserve: share of the GPU that the counted memory models leave free.
    adapters: whose, by which kernels, and how many times its price a run costs; none: as they were timed. BadInput
    for what is unknown or not to be had.
    """
    _check_words(form, memory, rounding)
    if (form == "fitted") != (file is not None) and not (form == "knots" and file is not None):
        raise BadInput("form: fitted needs a file that `lobra fit` wrote, and no other form takes one")
    told, groups, trained = messages_of(cluster, messages), cast(Choice, context), adapters or Adapters()
    if file is not None:
        held = None if memory == "auto" else _memory(model, cluster, memory, rounding, reserve)
        return _of_file(
            file,
            model,
            cluster,
            knots=form == "knots",
            memory=held,
            configs=configs,
            messages=told,
            context=groups,
            adapters=trained,
        )
    room = _memory(model, cluster, memory, rounding, reserve)
    if form == "paper":
        refuse_kernels("the paper's form", trained, runs=False)
        return _paper(model, cluster, room, configs)
    times = _with_adapters(_times(model, cluster, form, told), model, cluster, trained)
    candidates = _candidates(model, cluster, times.prices, room, configs)
    shared = shared_prices(times.prices, model, cluster, told, groups)
    layered = LayeredCost(
        model, cluster, shared.prices, room, candidates, times.evidence, times.head, told, shared.rings, context=groups
    )
    return KnottedCost(layered, times.views, times.note) if times.views else layered


def _of_file(
    file: Path,
    model: ModelSpec,
    cluster: ClusterSpec,
    *,
    knots: bool,
    memory: Memory | None,
    configs: Sequence[tuple[int, int]],
    messages: Messages,
    context: Choice,
    adapters: Adapters,
) -> CostModel:
    """By a file that `lobra fit` wrote; memory None: what the profile counted."""
    source = read_source(file, "floor_form")
    check_floor_source(source)
    refuse_kernels("a file that `lobra fit` wrote", adapters, runs=True)
    room, factor = memory or profiled_memory(source), adapters.run_factor
    candidates = _candidates(model, cluster, [int(fit["tp"]) for fit in source["fits"]], room, configs)
    planned = fitted_cost(
        model, cluster, source, room, candidates, messages=messages, context=context, run_factor=factor
    )
    return _with_knots(planned, source, factor) if knots else planned


def _check_words(form: str, memory: str, rounding: str) -> None:
    for what, value, choices in (
        ("form", form, FORMS),
        ("memory", memory, MEMORIES),
        ("rounding", rounding, ROUNDINGS),
    ):
        if value not in choices:
            raise BadInput(nearest(what, value, choices))


def _paper(model: ModelSpec, cluster: ClusterSpec, room: Memory, configs: Sequence[tuple[int, int]]) -> PaperCost:
    source = _need(_source("paper_form", model, cluster), "paper", model, cluster)
    coefficients = {tp: value for tp, value in paper_coefficients(source).items() if tp <= max(cluster.sizes)}
    candidates = _candidates(model, cluster, coefficients, room, configs)
    return PaperCost(model, coefficients, room, candidates, source["source"])


class Times(NamedTuple):
    """Layer times by tp: what planners price with, the head, and curves for the simulator where there are any."""

    prices: dict[int, LayerPrice]
    head: dict[int, float]
    evidence: Evidence
    views: dict[int, Directions]
    note: str  # on the difference of both
    adapters: bool = True  # whether they hold adapters' kernels of the usual kind and rank


def _times(model: ModelSpec, cluster: ClusterSpec, form: str, messages: Messages) -> Times:
    source = None if form == "roofline" else _source("floor_form", model, cluster)
    if form in ("floor", "knots"):
        _need(source, form, model, cluster)
    return _roofline(model, cluster, messages) if source is None else _fitted(source, model, cluster, form)


def _with_adapters(times: Times, model: ModelSpec, cluster: ClusterSpec, adapters: Adapters) -> Times:
    """The same with the adapters that are trained, and a part of its own for each run of them."""
    prices, note = with_adapters(times.prices, model, cluster, adapters, held=times.adapters)
    evidence = replace(times.evidence, notes=(*times.evidence.notes, note))
    head = {tp: share * times.prices[tp].token / prices[tp].token for tp, share in times.head.items()}
    views = views_with_adapters(times.views, times.prices, prices)
    return times._replace(prices=prices, head=head, evidence=evidence, views=views)


def _fitted(source: Mapping[str, Any], model: ModelSpec, cluster: ClusterSpec, form: str) -> Times:
    prices, evidence, factors = fitted_layers(source, cluster)
    if form == "floor":
        return Times(prices, {}, evidence, {}, "")
    head = dict.fromkeys(prices, head_layers(model))
    return Times(prices, head, evidence, read_views(source, factors), view_note(source))


def _with_knots(planned: LayeredCost | FittedCost, source: Mapping[str, Any], run_factor: float) -> KnottedCost:
    layered = planned.layered if isinstance(planned, FittedCost) else planned
    factors = fitted_layers(source, layered.cluster)[2]
    views = curves_with_run_factor(read_views(source, factors), run_factor)
    return KnottedCost(planned, views, view_note(source))


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


def _roofline(model: ModelSpec, cluster: ClusterSpec, messages: Messages) -> Times:
    """By efficiencies of the GPU's family where they are known, else by assumed ones."""
    tps = [tp for tp in TENSOR_EFFICIENCY if tensor_groups(cluster, tp) and model.heads % tp == 0]
    known = known_efficiency(cluster.gpu)
    if known is None:
        prices = {tp: roofline_price(model, cluster, tp, messages) for tp in tps}
        head = {tp: roofline_head(model, cluster, tp, price, messages) for tp, price in prices.items()}
        source = f"operations and bytes of '{model.name}' on '{cluster.gpu.name}', assumed efficiencies"
        return Times(prices, head, Evidence("roofline", source, {}, (ROOFLINE_NOTE,)), {}, "", adapters=False)
    layers = {tp: efficient_layer(known.efficiency, model, cluster, tp, messages) for tp in tps}
    source = f"operations and bytes of '{model.name}' on '{cluster.gpu.name}', efficiencies of its family's kernels"
    return Times(
        {tp: layer.price for tp, layer in layers.items()},
        {tp: layer.head for tp, layer in layers.items()},
        Evidence("roofline", source, {}, (EFFICIENCY_NOTE, known.note)),
        {tp: layer.view for tp, layer in layers.items()},
        difference_note({tp: (layer.difference, layer.largest) for tp, layer in layers.items()}),
    )
