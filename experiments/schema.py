"""What may stand in a configuration: mutable twins of the buildable things, one line each to be selectable.

Hydra checks every key and type of the YAML and of the command line against these classes. `kind` names the class that
`experiments.build` makes; it is fixed by the chosen group option and never by hand.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from experiments.schema_executor import Fit, Grid, Prepare, Tenants, Torch, Validate
from experiments.schema_policy import (
    AdaptiveOrder,
    Balanced,
    Cheapest,
    Dynamic,
    Fixed,
    Flexible,
    Given,
    Heterogeneous,
    Homogeneous,
    OneByOne,
    Packed,
    PackedPipeline,
    Paper,
    Policy,
    Portfolio,
    RoundRobin,
    Shared,
    Together,
    Uniform,
)
from experiments.schema_results import Doctor, Export, Figure, Report
from experiments.schema_whatif import Asking


@dataclass
class Model:
    """A base model: of the catalogue, or in a Hugging Face directory."""

    name: str = MISSING
    path: str | None = None  # of the directory


@dataclass
class Cluster:
    """Hardware of the catalogue, how much of it, and what to change about it."""

    name: str = MISSING
    nodes: int = MISSING
    gpus_per_node: int = MISSING
    memory_gib: float | None = None
    teraflops: float | None = None
    memory_gigabytes_per_second: float | None = None
    intra_gigabytes_per_second: float | None = None
    intra_latency_microseconds: float | None = None
    inter_gigabytes_per_second: float | None = None
    inter_latency_microseconds: float | None = None
    node_sizes: list[int] | None = None  # GPUs of each node where they differ


@dataclass
class NamedWorkload:
    """A workload of the catalogue."""

    kind: str = "named"
    name: str = MISSING
    sampler: str = "iid"
    overlong: str = "truncate"
    max_length: int = 16384
    batch_size: int | None = None
    copies: int = 1
    meetingbank: str = "alternative"
    spread: float = 1.0  # times the deviation of every law of lengths, its mean kept
    skew: float = 1.0  # power that bends every law at the same mean and deviation; above 1: longer tails
    tenants: list[str] = field(default_factory=list)


@dataclass
class OwnWorkload:
    """The user's own tenants, named by a YAML file."""

    kind: str = "own"
    file: str = MISSING
    sampler: str = "iid"
    overlong: str = "reject"  # of tenants that name no policy
    max_length: int | None = None
    batch_size: int | None = None


@dataclass
class Cost:
    """Which form of the cost model, and which memory table."""

    form: str = "auto"
    memory: str = "auto"
    rounding: str = "auto"  # of max tokens: power_of_two or multiple (of 128); auto: the former with the table
    file: str | None = None  # for fitted: what `lobra fit` wrote
    messages: str = "auto"  # measured curves inside nodes, formula elsewhere; measured: between nodes too; or formula
    context: str = "ulysses"  # how replicas share a micro-batch; ring or cheapest: simulated only
    adapters: str = "auto"  # their kernels: loop, grouped or fused; auto: as they were timed, else loop
    adapter_run: float = 1.0  # how many times its price another adapter in a micro-batch costs; 0: nothing
    launch: float = 1.0  # times the fixed parts of a layer; 1: as priced
    tensor_efficiency: float = 1.0  # speed that a tensor-parallel group keeps at every doubling, beside what is priced
    strict: bool = False  # refuse micro-batches beyond those that were timed, instead of extrapolating


@dataclass
class Noise:
    """Seeded disturbances of the simulation; 0 switches each of them off."""

    jitter_sigma: float = 0.0
    straggler_probability: float = 0.0
    straggler_factor: float = 1.0
    fitted: bool = False  # instead of these three: what `lobra fit` found in the repeats of the profile


@dataclass
class Sim:
    """The simulator and its knobs."""

    kind: str = "sim"
    fidelity: str = "pipeline"
    planning_seconds: float = 0.0
    deploy_seconds: float = 0.0  # of a re-deployment that moves replicas, beside what it sends over the links
    noise: Noise = field(default_factory=Noise)
    share_cores: bool = False  # with more ranks than cores: who waits frees its part of a core for the others


@dataclass
class World:
    """What every verb that plans or plays needs."""

    model: Model = field(default_factory=Model)
    cluster: Cluster = field(default_factory=Cluster)
    workload: Any = MISSING
    cost: Cost = field(default_factory=Cost)
    steps: int = 20
    seed: int = 0
    run_dir: str | None = None
    workers: int | None = None  # for compare: processes that play at once; none given: one a core where it pays
    fail_fast: bool = False  # in a sweep: leave the remaining points out after a failed one
    plans: str = "own"  # own: every policy plans for itself; paper: the published plans; or one, as 2,1x1;1,1x2
    policies: list[str] | None = None  # for compare: which; none given: all
    backend: Any = MISSING  # not for plan


@dataclass
class Run(World):
    """`lobra run`: one policy on one backend."""

    policy: Policy = field(default_factory=Policy)


@dataclass
class Plan(Run):
    """`lobra plan`: a policy's deployment and how good it is."""

    baselines: bool = True  # beside it the best homogeneous plans: plain, recomputing, sharded, context parallel
    running: str | None = None  # a run's directory or its directives: stay with that plan, or move?
    horizon: int = 1000  # steps in which a move must pay
    factor: float = 2.0  # how many times its cost a move must save
    regret: float | None = None  # perturb the cost model's coefficients by this much, such as 0.1
    law: str = "uniform"  # of the perturbation; or lognormal
    draws: int = 32  # perturbed cost models


@dataclass
class Intervals:
    """How sure a comparison is if the cost model is not."""

    draws: int = 0  # of cost models that may be the truth; 0: none, 50 is enough


@dataclass
class Compare(World):
    """`lobra compare`: many policies side by side on the same batches."""

    intervals: Intervals = field(default_factory=Intervals)


@dataclass
class OnePolicy:
    """A policy alone, as `compare` composes it."""

    policy: Policy = field(default_factory=Policy)


@dataclass
class Profile:
    """`lobra profile`: times micro-batches on real ranks."""

    model: Model = field(default_factory=Model)
    cluster: Cluster = field(default_factory=Cluster)
    backend: Any = MISSING
    grid: Grid = field(default_factory=Grid)
    tenants: Tenants = field(default_factory=Tenants)
    run_dir: str | None = None


@dataclass
class Study:
    """`lobra study`: the points of a study, its table and its figure."""

    study: str = MISSING  # which; experiment=NAME sets it
    sweep: str = "smoke"  # smoke: seconds; paper: minutes
    seed: int = 0
    jobs: int = 1  # points that play at once, each in a process of its own
    run_dir: str | None = None


@dataclass
class Gain:
    """`lobra gain LENGTHS`: the most that each ingredient can give."""

    model: Model = field(default_factory=Model)
    cluster: Cluster = field(default_factory=Cluster)
    cost: Cost = field(default_factory=Cost)
    lengths: str = MISSING  # a CSV with a column tokens, a YAML of tenants, a shipped set, or a workload's name
    batch_size: int | None = None  # sequences a step; none given: what the tenants say, 512 for a CSV or a set
    max_length: int = 16384  # longer sequences are cut
    seed: int = 0
    run_dir: str | None = None  # also the phase diagram; none given: the table alone


@dataclass
class Fleet(Cluster):
    """Hardware of which more or less may be taken."""

    granularity: str = "node"  # what is added at a time: gpu or node


@dataclass
class Whatif(Run, Asking):
    """`lobra whatif QUESTION`: one question about capacity."""

    cluster: Fleet = field(default_factory=Fleet)


VERBS: dict[str, type] = {
    "plan": Plan,
    "run": Run,
    "compare": Compare,
    "prepare": Prepare,
    "profile": Profile,
    "fit": Fit,
    "validate": Validate,
    "gain": Gain,
    "study": Study,
    "whatif": Whatif,
    "figure": Figure,
    "report": Report,
    "export": Export,
    "doctor": Doctor,
}

OPTIONS: dict[str, tuple[type, ...]] = {
    "backend": (Sim, Torch),
    "workload": (NamedWorkload, OwnWorkload),
    "policy/grouping": (Together, OneByOne),
    "policy/deployment": (Homogeneous, Heterogeneous, Paper, Given),
    "policy/batching": (Fixed, Dynamic, Portfolio, Packed),
    "policy/dispatch": (Uniform, Cheapest, Balanced, PackedPipeline, Shared, Flexible),
}

ORDERS = (AdaptiveOrder, RoundRobin)  # a part that most policies lack; the file of a policy names it


def register() -> None:
    """Tell Hydra's store of these classes; YAML refers to them as `/schema/GROUP@_here_: KIND`."""
    store = ConfigStore.instance()
    for verb, kind in (*VERBS.items(), ("one_policy", OnePolicy)):
        store.store(group="schema", name=verb, node=kind, package="_global_")
    for group, kinds in OPTIONS.items():
        for kind in kinds:
            store.store(group=f"schema/{group}", name=kind.kind, node=kind)  # type: ignore[attr-defined]
    for kind in ORDERS:
        store.store(group="schema/policy/order", name=kind.kind, node=kind)
