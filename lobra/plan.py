"""What is decided: replicas and where they live, and the micro-batches each of them runs in a step."""

from dataclasses import dataclass
from typing import NamedTuple

from lobra.errors import BadInput
from lobra.schedule import stage_sizes
from lobra.spec import ClusterSpec, ModelSpec, SequenceRef, Tenant, check_tenants, positive


@dataclass(frozen=True, slots=True, order=True)
class ReplicaConfig:
    """The parallel shape of a replica."""

    tp: int
    pp: int
    recompute: int = 0  # layers of a stage whose activations are recomputed: more tokens fit, backward costs more
    fsdp: int = 1  # frozen weights sharded over this many equal replicas and gathered layer by layer

    def __post_init__(self) -> None:
        positive(f"configuration {self}", tp=self.tp, pp=self.pp, fsdp=self.fsdp)
        if self.recompute < 0:
            raise BadInput(f"configuration {self}: recompute is {self.recompute}; it counts layers, 0 or more")

    @property
    def gpus(self) -> int:
        """GPUs that one replica occupies."""
        return self.tp * self.pp

    def __str__(self) -> str:
        extra = f",r{self.recompute}" if self.recompute else ""
        return f"<{self.tp},{self.pp}{extra}{f',fsdp{self.fsdp}' if self.fsdp > 1 else ''}>"


@dataclass(frozen=True, slots=True)
class Replica:
    """A configuration at a place."""

    config: ReplicaConfig
    gpus: tuple[int, ...]  # global ranks, stage-major: gpus[stage * tp + shard]
    budget: int  # tokens a micro-batch may hold (<= what fits; smaller means smaller bubbles)
    layers: tuple[int, ...] | None = None  # first layer of each stage; None: even cut, remainder to the first stages

    def __post_init__(self) -> None:
        positive(f"replica {self.config}", budget=self.budget)
        if len(self.gpus) != self.config.gpus:
            raise BadInput(f"replica {self.config} needs {self.config.gpus} GPUs, but its place names {len(self.gpus)}")
        cut = self.layers
        if cut is not None and (len(cut) != self.config.pp or cut[0] != 0 or sorted(set(cut)) != list(cut)):
            raise BadInput(
                f"replica {self.config}: layers is {cut}; give the first layer of each stage, ascending from 0"
            )


@dataclass(frozen=True, slots=True)
class Certificate:
    """How good a plan is, and what that rests on."""

    expected_seconds: float  # of a step, by the planner's own evaluator
    bound_seconds: float  # no plan of the same kinds can be faster
    bound: str  # which bound it is, and of what
    solver: str  # name and version
    status: str  # optimal, time_limit, enumerated, fixed, ...
    seed: int
    with_bubbles_seconds: float | None = None  # the bound if every pipeline waits for full micro-batches; None: no pp
    kinds: int | None = None  # replicas with a budget that were considered
    undominated: int | None = None  # of these, what was left when those that others replace at no loss were dropped
    notice: str | None = None  # what the solver had to say: a fallback, a limit that had to be enforced

    @property
    def gap(self) -> float:
        """Relative distance of the plan from the bound."""
        return self.expected_seconds / self.bound_seconds - 1 if self.bound_seconds > 0 else float("inf")

    @property
    def bubble_gap(self) -> float:
        """How much of the gap no plan can close whose pipelines wait for full micro-batches; 0 without pipelines."""
        if self.with_bubbles_seconds is None or not self.bound_seconds > 0:
            return 0.0
        return self.with_bubbles_seconds / self.bound_seconds - 1


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """Which replicas serve which tenants, and where: any mix of configurations."""

    model: ModelSpec
    cluster: ClusterSpec
    tenants: tuple[Tenant, ...]
    replicas: tuple[Replica, ...]
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        check_tenants(self.tenants)
        if not self.replicas:
            raise BadInput("plan: it has no replica; at least one is needed")
        used = [gpu for replica in self.replicas for gpu in replica.gpus]
        if len(used) > self.cluster.gpus:
            raise BadInput(f"the plan uses {len(used)} GPUs, but cluster '{self.cluster.name}' has {self.cluster.gpus}")
        if len(set(used)) != len(used):
            twice = next(gpu for gpu in used if used.count(gpu) > 1)
            raise BadInput(f"plan: GPU {twice} belongs to two replicas; a GPU serves one")
        if min(used) < 0 or max(used) >= self.cluster.gpus:
            raise BadInput(f"plan: GPU ranks must lie in 0..{self.cluster.gpus - 1}, got {min(used)}..{max(used)}")
        for replica in self.replicas:
            self._check_replica(replica)
        for config in {replica.config for replica in self.replicas if replica.config.fsdp > 1}:
            equal = sum(replica.config == config for replica in self.replicas)
            if equal % config.fsdp:
                raise BadInput(f"plan: {equal} replicas {config} cannot shard their weights over {config.fsdp}")

    def _check_replica(self, replica: Replica) -> None:
        config = replica.config
        if config.pp > self.model.layers:
            raise BadInput(
                f"replica {config}: pp {config.pp} exceeds the {self.model.layers} layers of '{self.model.name}'"
            )
        largest = max(stage_sizes(self.model.layers, config.pp, replica.layers))
        if config.recompute > largest:
            raise BadInput(
                f"replica {config}: recompute {config.recompute} exceeds the {largest} layers of its largest stage"
            )
        for stage in range(config.pp):
            group = replica.gpus[stage * config.tp : (stage + 1) * config.tp]
            nodes = {self.cluster.node_of(gpu) for gpu in group}
            if len(nodes) > 1 and sum(self.cluster.sizes[node] for node in nodes) != config.tp:
                raise BadInput(
                    f"replica {config}: tp group {group} spans nodes {sorted(nodes)}; keep it in one or fill them"
                )

    @property
    def idle_gpus(self) -> tuple[int, ...]:
        """GPUs of the cluster that no replica uses; they are billed all the same."""
        used = {gpu for replica in self.replicas for gpu in replica.gpus}
        return tuple(gpu for gpu in range(self.cluster.gpus) if gpu not in used)

    def summary(self) -> str:
        """The plan in the paper's notation, `<1,1>x6 <8,1>x1`; where budgets of one configuration differ, `/tokens`."""
        counts: dict[tuple[ReplicaConfig, int], int] = {}
        for replica in self.replicas:
            key = (replica.config, replica.budget)
            counts[key] = counts.get(key, 0) + 1
        plain = len({config for config, _ in counts}) == len(counts)
        return " ".join(
            f"{config}{'' if plain else f'/{budget}'}x{count}" for (config, budget), count in sorted(counts.items())
        )


class Shape(NamedTuple):
    """What a micro-batch costs is a function of this."""

    rows: int
    width: int  # tokens of a row, padding included
    tokens: int  # rows * width: what the linear layers see
    useful: int  # tokens that are no padding
    squares: int  # sum of squared attended lengths
    runs: int  # adapter runs: neighbouring sequences of one tenant count once
    shards: int  # replicas that share it by context parallelism


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows of one width. Padded: one sequence a row. Packed: several sequences in a row."""

    rows: tuple[tuple[SequenceRef, ...], ...]
    width: int
    group: tuple[int, ...] = ()  # replicas that compute it together by context parallelism; (): its own replica alone

    def __post_init__(self) -> None:
        if not self.rows or not all(self.rows):
            raise BadInput("micro-batch: it has an empty row; leave empty micro-batches and rows out")
        for row in self.rows:
            if sum(sequence.length for sequence in row) > self.width:
                raise BadInput(
                    f"micro-batch: a row holds {sum(s.length for s in row)} tokens, but its width is {self.width}"
                )
        if len(set(self.group)) != len(self.group) or len(self.group) == 1:
            raise BadInput(f"micro-batch: group is {self.group}; name two or more replicas, each once, or none")

    @property
    def shape(self) -> Shape:
        """Its Shape. A row with one sequence attends over its whole width, packed sequences each over themselves."""
        useful = squares = runs = 0
        last = -1
        for row in self.rows:
            if len(row) == 1:
                squares += self.width * self.width
            for sequence in row:
                useful += sequence.length
                if len(row) > 1:
                    squares += sequence.length * sequence.length
                if sequence.tenant != last:
                    runs += 1
                    last = sequence.tenant
        count = len(self.rows)
        return Shape(count, self.width, count * self.width, useful, squares, runs, max(1, len(self.group)))


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One optimiser step, or a part of one."""

    step: int
    work: tuple[tuple[MicroBatch, ...], ...]  # work[i] is for plan.replicas[i], in the order of execution; may be empty
    updates: tuple[int, ...] | None = None  # tenants whose adapters step at its end; None: every tenant
    drain: bool = True  # False: the pipeline is not flushed between this step plan and the next

    def __post_init__(self) -> None:
        if self.step < 0:
            raise BadInput(f"step plan: step is {self.step}; steps count from 0")
        if not self.work:
            raise BadInput("step plan: work is empty; give one entry a replica")
