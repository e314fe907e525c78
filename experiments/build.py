"""From checked configuration to the things it describes: one explicit function a thing, no name is ever called."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from costmodel.adapters import Adapters
from costmodel.catalogue import cost_model
from costmodel.guard import strict
from costmodel.hardware import cluster_spec, model_spec
from costmodel.levers import with_levers
from executor.huggingface_config import read_config, spec_of
from experiments import schema
from experiments import schema_policy as parts
from experiments.disturbing import noise_of, on_shared_cores, redeployment
from experiments.published import Published
from experiments.schema_executor import Torch
from experiments.shipped import tenants_file
from experiments.torch_backend import torch_backend
from experiments.walk import World
from lobra.errors import BadInput, Infeasible
from lobra.protocols import Backend, Batching, CostModel, DeploymentPolicy, DispatchPolicy, Grouping, Workload
from lobra.spec import ClusterSpec, ModelSpec, Tenant
from policies.adaptive.adaptive import Adaptive
from policies.adaptive.round_robin import RoundRobin
from policies.batching.boundaries import DynamicBuckets, FixedBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.batching.portfolio import Portfolio
from policies.deployment.fixed import Fixed
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.homogeneous import Homogeneous
from policies.dispatch.balanced import Balanced
from policies.dispatch.cheapest import CheapestFit
from policies.dispatch.flexible import FlexibleGroups
from policies.dispatch.packed_pipeline import PackedPipeline
from policies.dispatch.shared import SharedGroups
from policies.dispatch.uniform import Uniform
from policies.grouping import OneByOne, Together
from policies.policy import Order, Policy
from sim.simulator import Simulator
from workloads.catalogue import named_workload
from workloads.own import own_workload


def build_world(config: schema.World) -> World:
    """Workload, model, cluster and cost model of a comparison."""
    if config.steps < 1:
        raise BadInput(f"steps is {config.steps}; at least 1 batch is needed")
    if config.seed < 0:
        raise BadInput(f"seed is {config.seed}; it must not be negative")
    model, hardware = build_model(config.model), build_cluster(config.cluster)
    with _about("workload"):
        workload = build_workload(config.workload, config.seed)
    return World(workload, model, hardware, build_cost(config.cost, model, hardware, workload.tenants))


def build_cost(config: schema.Cost, model: ModelSpec, hardware: ClusterSpec, tenants: tuple[Tenant, ...]) -> CostModel:
    """The cost model of these tenants."""
    if config.form == "fitted" and config.file is None:
        raise BadInput("cost.file: a value is missing; give cost.file=FILE, which `lobra fit` wrote")
    with _about("cost"):
        cost = cost_model(
            model,
            hardware,
            form=_word(config.form),
            memory=_word(config.memory),
            rounding=_word(config.rounding),
            file=Path(config.file) if config.file is not None else None,
            messages=config.messages,
            context=config.context,
            adapters=Adapters(tenants, _word(config.adapters), config.adapter_run),
        )
        cost = with_levers(cost, config.launch, config.tensor_efficiency)
        return strict(cost) if config.strict else cost


def build_model(config: schema.Model) -> ModelSpec:
    """The base model: of the catalogue, or with the sizes of a Hugging Face directory."""
    if config.path is None:
        if config.name == "directory":
            raise BadInput("model.path: a value is missing; give model.path=DIR")
        return model_spec(config.name)
    with _about("model.path"):
        return spec_of(read_config(Path(config.path)), config.name)


def build_cluster(config: schema.Cluster) -> ClusterSpec:
    """The hardware, with what is changed about it."""
    for key in ("nodes", "gpus_per_node"):
        if getattr(config, key) < 1:
            raise BadInput(f"cluster.{key} is {getattr(config, key)}; a cluster needs at least 1")
    changed = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in vars(config).items()
        if key not in ("name", "nodes", "gpus_per_node") and value is not None
    }
    with _about("cluster"):
        return cluster_spec(config.name, config.nodes, config.gpus_per_node, **changed)


@contextmanager
def _about(part: str) -> Iterator[None]:
    """Name the part of the configuration that a complaint is about."""
    try:
        yield
    except (BadInput, Infeasible) as error:
        raise type(error)(f"{part}: {error}") from None


def build_workload(config: Any, seed: int) -> Workload:
    """Tenants of the catalogue, or the user's own."""
    match config:
        case schema.NamedWorkload(kind="named"):
            return named_workload(
                config.name,
                seed=seed,
                sampler=config.sampler,
                overlong=config.overlong,
                max_length=config.max_length,
                batch_size=config.batch_size,
                copies=config.copies,
                meetingbank=config.meetingbank,
                tenants=tuple(config.tenants),
                spread=config.spread,
                skew=config.skew,
            )
        case schema.OwnWorkload(kind="own"):
            return own_workload(
                tenants_file(config.file),
                seed=seed,
                sampler=config.sampler,
                overlong=config.overlong,
                max_length=config.max_length,
                batch_size=config.batch_size,
            )
    raise _by_hand("workload", config)


def build_backend(config: schema.World, world: World) -> Callable[[Path], Backend]:
    """Makes a fresh backend for a group, given the group's folder."""
    match config.backend:
        case schema.Sim(kind="sim"):
            simulator = build_simulator(config.backend, world.cost, config.seed, config.cost.file)
            return lambda _: simulator
        case Torch(kind="torch"):
            if config.cost.context != "ulysses":
                raise BadInput(
                    f"cost.context is '{config.cost.context}', but the executor shares micro-batches by Ulysses alone; "
                    "set cost.context=ulysses, or backend=sim"
                )
            return torch_backend(config, world.cluster, world.workload.tenants)
    raise _by_hand("backend", config.backend)


def build_simulator(config: schema.Sim, cost: CostModel, seed: int, file: str | None = None) -> Simulator:
    """The simulator with its knobs; file: of fitted coefficients, for the noise found with them."""
    priced, sharing = on_shared_cores(cost, file) if config.share_cores else (cost, None)
    return Simulator(
        priced,
        fidelity=_word(config.fidelity),
        planning_seconds=config.planning_seconds,
        deploy_seconds=redeployment(config.deploy_seconds, file),
        noise=noise_of(config.noise, seed, file),
        sharing=sharing,
    )


def build_policy(config: parts.Policy, seed: int) -> Policy:
    """A policy of its four parts."""
    batching, dispatch = build_batching(config.batching), build_dispatch(config.dispatch, seed)
    return Policy(
        config.name,
        build_grouping(config.grouping),
        build_deployment(config.deployment, config.published, batching, dispatch, seed),
        batching,
        dispatch,
        build_order(config.order),
    )


def build_order(config: Any) -> Order | None:
    """The order of micro-batches where nothing is flushed between steps."""
    match config:
        case None:
            return None
        case parts.AdaptiveOrder(kind="adaptive"):
            return Adaptive(config.window, config.tile, config.capacity, config.work)
        case parts.RoundRobin(kind="round_robin"):
            return RoundRobin(config.window, config.tile, config.capacity)
    raise _by_hand("policy.order", config)


def build_grouping(config: Any) -> Grouping:
    """Who trains together."""
    match config:
        case parts.Together(kind="together"):
            return Together()
        case parts.OneByOne(kind="one_by_one"):
            return OneByOne()
    raise _by_hand("policy.grouping", config)


def build_batching(config: Any) -> Batching:
    """Padding or packing."""
    match config:
        case parts.Fixed(kind="fixed"):
            return Padded(FixedBuckets(tuple(config.widths), align=config.align))
        case parts.Dynamic(kind="dynamic"):
            return Padded(DynamicBuckets(config.number, config.step))
        case parts.Portfolio(kind="portfolio"):
            return Portfolio(config.number, config.step)
        case parts.Packed(kind="packed"):
            return Packed(config.class_step, config.fill, config.round_to, align=_word(config.align))
    raise _by_hand("policy.batching", config)


def build_dispatch(config: Any, seed: int) -> DispatchPolicy:
    """Which sequences go to which replica."""
    match config:
        case parts.Uniform(kind="uniform"):
            return Uniform()
        case parts.Cheapest(kind="cheapest"):
            return CheapestFit()
        case parts.Balanced(kind="balanced"):
            return Balanced(config.work, config.repair, seed, _word(config.split))
        case parts.PackedPipeline(kind="packed_pipeline"):
            return PackedPipeline(config.tries, config.corrections)
        case parts.Shared(kind="shared"):
            return SharedGroups(config.shards, Balanced(config.work, config.repair, seed))
        case parts.Flexible(kind="flexible"):
            return FlexibleGroups(config.largest, Balanced(config.work, config.repair, seed))
    raise _by_hand("policy.dispatch", config)


def build_deployment(
    config: Any, system: str, batching: Batching, dispatch: DispatchPolicy, seed: int
) -> DeploymentPolicy:
    """Which replicas; a planner judges by the batching and dispatch that will run later."""
    match config:
        case parts.Homogeneous(kind="homogeneous"):
            return Homogeneous(
                batching,
                dispatch,
                recompute=_word(config.recompute),
                budgets=config.budgets,
                fsdp=config.fsdp,
                groups=config.groups,
                candidates=_shapes(config.candidates),
                batches=config.batches,
                seed=seed,
                longest=_word(config.longest),
            )
        case parts.Heterogeneous(kind="heterogeneous"):
            return Heterogeneous(
                batching,
                dispatch,
                solver=_word(config.solver),
                candidates=_shapes(config.candidates),
                recompute=_word(config.recompute),
                budgets=config.budgets,
                fsdp=config.fsdp,
                batches=config.batches,
                pool=config.pool,
                exchanges=config.exchanges,
                expectation=_word(config.expectation),
                time_limit_seconds=config.time_limit_seconds,
                seed=seed,
                longest=_word(config.longest),
                groups=config.groups,
            )
        case parts.Paper(kind="paper"):
            form = Fixed("1,1x1", batching, dispatch, batches=config.batches, seed=seed, longest=_word(config.longest))
            return Published(system, config.plans, config.tenants, form)
        case parts.Given(kind="given"):
            batches, longest = config.batches, _word(config.longest)
            return Fixed(config.replicas, batching, dispatch, batches=batches, seed=seed, longest=longest)
    raise _by_hand("policy.deployment", config)


def _shapes(candidates: Sequence[Sequence[int]] | None) -> tuple[tuple[int, int], ...] | None:
    if candidates is None:
        return None
    if any(len(shape) != 2 for shape in candidates):
        raise BadInput(f"policy.deployment.candidates is {list(candidates)}; give pairs [tp,pp]")
    return tuple((shape[0], shape[1]) for shape in candidates)


def _word(text: str) -> Any:
    """A word that the part it is for checks against its own choices."""
    return cast(Any, text)


def _by_hand(key: str, config: Any) -> BadInput:
    kind = getattr(config, "kind", config)
    return BadInput(
        f"{key}.kind is {kind!r}, which its options do not agree with; choose by {key.replace('.', '/')}=NAME"
    )
