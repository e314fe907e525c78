"""What a question is asked with: everything composed and checked, and the same on another cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, get_args

from experiments import schema
from experiments.build import build_cluster, build_cost, build_policy, build_world
from experiments.capacity.accounting import RULES, Rule
from experiments.capacity.deciding import RULES as CHURN_RULES
from experiments.capacity.price_file import read_prices
from experiments.capacity.prices import Kind, Price, PriceBook
from experiments.walk import World
from experiments.whatif.words import budget_of, some_seconds
from lobra.errors import BadInput
from policies.policy import Policy
from workloads.arrivals.nouns import Offer, check_names
from workloads.sampled import SampledWorkload

GRANULARITIES = ("gpu", "node")


@dataclass(frozen=True, slots=True)
class Promise:
    """What must hold; None: nothing was promised."""

    finish_p95: float | None = None  # seconds from arrival to the last step
    wait_p95: float | None = None  # seconds from arrival to the first step


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """What a GPU hour costs; asked for by name, never guessed."""

    book: PriceBook
    price: Price


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One question with all it needs."""

    question: str
    config: schema.Whatif  # every key as given, for what a single question knows of
    world: World  # the tenants that are offered, model, cluster, prices of work
    policy: Policy
    offers: tuple[Offer, ...]  # a tenant each, with its budget; in the order of the world's tenants
    sizes: Mapping[str, int]  # sequences of a tenant's data set, for budgets in epochs
    promise: Promise
    rule: Rule  # of accounting
    seeds: tuple[int, ...]  # one play each; the same seeds on every cluster and under every policy
    folder: Path  # of the run: for files beside the answer
    name: str = ""  # hash of the configuration
    work_factor: float = 1.0  # times the seconds of all work
    late: Mapping[str, float] = field(default_factory=dict)  # who of a team comes later than the rest, in seconds

    @property
    def workload(self) -> SampledWorkload:
        """The tenants that are offered."""
        assert isinstance(self.world.workload, SampledWorkload)  # whatever build_workload makes
        return self.world.workload


def asked_of(config: schema.Whatif, folder: Path, name: str = "") -> Asked:
    """Everything composed; BadInput names the key that is wrong."""
    if config.seeds < 1:
        raise BadInput(f"seeds is {config.seeds}; at least 1 play is needed")
    if config.rule not in RULES:
        raise BadInput(f"rule is {config.rule!r}; choose {', '.join(RULES)}")
    if config.churn.rule not in CHURN_RULES:
        raise BadInput(f"churn.rule is {config.churn.rule!r}; choose {', '.join(CHURN_RULES)}")
    if config.cluster.granularity not in GRANULARITIES:
        raise BadInput(f"cluster.granularity is {config.cluster.granularity!r}; choose {', '.join(GRANULARITIES)}")
    world = _world(config)
    workload = world.workload
    assert isinstance(workload, SampledWorkload)
    check_names(tenant.name for tenant in workload.tenants)
    sources = zip(workload.tenants, workload.sources, strict=True)
    return Asked(
        config.question,
        config,
        world,
        build_policy(config.policy, config.seed),
        offers_of(config, workload),
        {tenant.name: source.size for tenant, source in sources if source.size is not None},
        Promise(
            some_seconds("slo.finish_p95", config.slo.finish_p95), some_seconds("slo.wait_p95", config.slo.wait_p95)
        ),
        config.rule,
        tuple(range(config.seed, config.seed + config.seeds)),
        folder,
        name,
    )


def offers_of(config: schema.Whatif, workload: SampledWorkload) -> tuple[Offer, ...]:
    """Every tenant with its budget."""
    names = [tenant.name for tenant in workload.tenants]
    for name in config.budgets:
        if name not in names:
            raise BadInput(f"budgets: there is no tenant '{name}'; name one of {', '.join(names)}")
    usual = budget_of("budget", config.budget)
    sigma = config.arrivals.budget_sigma
    return tuple(
        Offer(
            tenant,
            budget_of(f"budgets.{tenant.name}", config.budgets[tenant.name])
            if tenant.name in config.budgets
            else usual,
            budget_sigma=sigma,
        )
        for tenant in workload.tenants
    )


def resized(asked: Asked, gpus: int) -> Asked:
    """The same question on so many GPUs of the same kind: full nodes, and one with the rest."""
    if gpus < 1:
        raise BadInput(f"sizes: {gpus} GPUs are asked for; at least 1 is needed")
    config, each = asked.config, asked.config.cluster.gpus_per_node
    nodes, rest = divmod(gpus, each)
    sizes = [each] * nodes + [rest] * (rest > 0)
    uneven = sizes if rest and nodes else None
    return on_cluster(
        asked,
        replace(config.cluster, nodes=len(sizes), gpus_per_node=min(each, gpus), node_sizes=uneven),
    )


def on_cluster(asked: Asked, cluster: schema.Fleet) -> Asked:
    """The same question on other hardware."""
    hardware, config = build_cluster(_hardware(cluster)), asked.config
    world = asked.world
    cost = build_cost(config.cost, world.model, hardware, world.workload.tenants)
    return replace(
        asked,
        config=replace(config, cluster=cluster),
        world=World(world.workload, world.model, hardware, cost),
    )


def with_policy(asked: Asked, policy: Policy) -> Asked:
    """The same question under another policy."""
    return replace(asked, policy=policy)


def with_workload(asked: Asked, workload: SampledWorkload, offers: tuple[Offer, ...]) -> Asked:
    """The same question for other tenants."""
    world = asked.world
    cost = build_cost(asked.config.cost, world.model, world.cluster, workload.tenants)
    sources = zip(workload.tenants, workload.sources, strict=True)
    return replace(
        asked,
        world=World(workload, world.model, world.cluster, cost),
        offers=offers,
        sizes={tenant.name: source.size for tenant, source in sources if source.size is not None},
    )


def priced_of(asked: Asked) -> Priced | None:
    """The price of this cluster's GPUs; None where no prices are given, BadInput where they do not know this GPU."""
    config = asked.config
    if config.prices is None:
        return None
    book, gpu = read_prices(config.prices), asked.world.cluster.gpu.name
    kind = kind_of(config.offer)
    found = book.cheapest(gpu, kind) if config.provider is None else book.find(gpu, config.provider, kind)
    return Priced(book, found)


def kind_of(word: str) -> Kind:
    """The offer of that name; BadInput where it is none."""
    for known in get_args(Kind):
        if word == known:
            return cast(Kind, known)
    raise BadInput(f"offer is {word!r}; choose {', '.join(get_args(Kind))}")


def _world(config: schema.Whatif) -> World:
    """What `build_world` makes, on hardware without the keys of questions."""
    plain = schema.World(
        config.model, _hardware(config.cluster), config.workload, config.cost, config.steps, config.seed
    )
    return build_world(plain)


def _hardware(cluster: schema.Fleet) -> schema.Cluster:
    """Without what questions alone ask of it."""
    return schema.Cluster(**{key: value for key, value in vars(cluster).items() if key != "granularity"})
