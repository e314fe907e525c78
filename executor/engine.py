"""One rank's training state, and what it does with a directive: deploy a plan, or run a step of it."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.utils.checkpoint import checkpoint

from executor import optimiser
from executor.adapters import Adapter, Bank, create
from executor.admission import admit_plan, admit_step
from executor.attention import choose
from executor.config import ModelConfig
from executor.data import TokenSource, build
from executor.mesh import Context, Groups, Mesh, Place, own_rank, world_size
from executor.model import Input, Stage, load_layer, load_table, make_input
from executor.pipeline import run
from executor.settings import Settings
from executor.state import TenantState, collect, restore
from executor.tally import Tally, agree, gradients_of, label_tokens, sum_gradients, tenant_losses
from executor.timing import Clock, ClockMaker, StepClock
from executor.weights import WeightSource
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.trace import Span

Tensor = torch.Tensor
CPU = torch.device("cpu")
Contexts = dict[tuple[int, ...], Context]


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did; equal on all ranks but for the spans, which are this rank's."""

    step: int
    loss_sums: tuple[float, ...]  # of each tenant, over the step plan's label tokens
    label_tokens: tuple[int, ...]
    gradient_norms: tuple[float, ...]  # of the mean gradient, before clipping; 0 where a tenant did not update
    updated: tuple[int, ...]
    skipped: tuple[int, ...]  # a loss or gradient was not finite
    quarantined: tuple[int, ...]  # tenants that do not train any more
    spans: tuple[Span, ...]

    @property
    def mean_losses(self) -> tuple[float, ...]:
        """Loss a label token; 0 for a tenant without any."""
        return tuple(
            total / count if count else 0.0 for total, count in zip(self.loss_sums, self.label_tokens, strict=True)
        )


class Engine:
    """Base model, adapters and optimiser of one rank; every rank of the job must make the same calls.

    A process without torch.distributed is a job of one rank.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: WeightSource,
        tokens: TokenSource,
        settings: Settings,
        *,
        groups: Groups | None = None,
        device: torch.device = CPU,
        origin: float | None = None,
        clock: ClockMaker = Clock,
    ) -> None:
        self.config = config
        self.settings = settings
        self.device = device
        self.rank = own_rank()
        self._weights = weights
        self._tokens = tokens
        self._groups = groups if groups is not None else Groups()
        self._origin = time.perf_counter() if origin is None else origin
        self._attention = choose(settings.attention, settings.compute, device)
        self.mesh: Mesh | None = None
        self.adapters: tuple[Adapter, ...] = ()
        self._stage: Stage | None = None
        self._make_clock = clock
        self._clock: StepClock = clock(-1, -1, device, self._origin)

    def deploy(self, plan: DeploymentPlan) -> tuple[Span, ...]:
        """Take a plan into service; adapters and optimiser states of tenants that stay follow by name."""
        admit_plan(plan, self.config, self.settings, world_size())
        staying = {tenant.name: tenant for tenant in plan.tenants}
        for adapter in self.adapters:
            if staying.get(adapter.tenant.name, adapter.tenant) != adapter.tenant:
                raise BadInput(
                    f"tenant '{adapter.tenant.name}': the new plan changes it; end it and give it a new name"
                )
        states = [self.export(adapter.tenant.name) for adapter in self.adapters if adapter.tenant.name in staying]
        mesh = Mesh(plan, self.rank, self._groups)
        place, master = mesh.place, self.settings.master
        replica, stage = (place.replica, place.stage) if place else (-1, -1)
        clock = self._make_clock(replica, stage, self.device, self._origin)
        with clock("deploy"):
            self.mesh, self._stage = mesh, None
            self.adapters = tuple(create(tenant, self.config, place, master, self.device) for tenant in plan.tenants)
            for state in states:
                self.load(state)
            if place is not None:
                self._stage = self._load_stage(mesh, place)
        self._clock = clock
        return clock.take()

    def _load_stage(self, mesh: Mesh, place: Place) -> Stage:
        config, dtype, source = self.config, self.settings.compute, self._weights
        layers = tuple(
            load_layer(source, config, place, number, dtype=dtype, device=self.device) for number in place.layers
        )
        table = "model.embed_tokens.weight"
        embedding = load_table(source, table, dtype, self.device) if place.first else None
        norm = load_table(source, "model.norm.weight", dtype, self.device) if place.last else None
        head = None
        if place.last and config.tied_embeddings:
            head = embedding if embedding is not None else load_table(source, table, dtype, self.device)
        elif place.last:
            head = load_table(source, "lm_head.weight", dtype, self.device)
        recompute = mesh.plan.replicas[place.replica].config.recompute
        if recompute:  # its first use imports for a second; not in a step, whose progress is watched
            checkpoint(torch.neg, torch.zeros(1, requires_grad=True), use_reentrant=False, preserve_rng_state=False)
        return Stage(
            config=config,
            place=place,
            layers=layers,
            embedding=embedding,
            norm=norm,
            head=head,
            bank=Bank(self.adapters),
            tensor=mesh.tensor,
            attention=self._attention,
            lora=self.settings.lora,
            recompute=recompute,
        )

    def run_step(self, step: StepPlan) -> StepResult:
        """Forward, backward, synchronisation and update of one step plan."""
        mesh = self._deployed()
        admit_step(mesh.plan, step, self.config)
        contexts = mesh.contexts(step)
        inputs: list[Input] = []
        sums: Tensor | None = None
        if self._stage is not None:
            inputs = self._inputs(step, mesh, self._stage.place, contexts)
            losses = run(self._stage, mesh, inputs, self._clock, self.settings.compute)
            if self._stage.place.last:
                sums = tenant_losses(inputs, losses, mesh, len(self.adapters))
        labels = label_tokens(step, len(self.adapters))
        for adapter, count in zip(self.adapters, labels, strict=True):
            adapter.labels += count
        due = self._due(step)
        with self._clock("synchronise"):
            buffers, squares = sum_gradients(mesh, self.adapters, due, self.settings.bucket_bytes)
            tally = agree(mesh, sums, squares, self.device)
            norms = [0.0] * len(self.adapters)
            for tenant in due:
                norms[tenant] = tally.norms[tenant] / self.adapters[tenant].labels
            skipped = self._judge(tally, due)
            for tenant in due:
                if tenant not in skipped:
                    self._update(mesh, tenant, buffers[tenant], norms[tenant])
            self._clear(due)
        return StepResult(
            step.step,
            tally.losses,
            tuple(labels),
            tuple(norms),
            tuple(tenant for tenant in due if tenant not in skipped),
            skipped,
            tuple(i for i, adapter in enumerate(self.adapters) if adapter.quarantined),
            self._clock.take(),
        )

    def _inputs(self, step: StepPlan, mesh: Mesh, place: Place, contexts: Contexts) -> list[Input]:
        names = [tenant.name for tenant in mesh.plan.tenants]
        dtype = self.settings.compute
        source = self._tokens if place.first or place.last else None
        inputs = []
        for microbatch in step.work[place.replica]:
            stream = build(microbatch, place.tp, names, source, self.config.vocabulary).to(self.device)
            context = contexts.get(microbatch.group)
            inputs.append(make_input(stream, self.config, place, step=step.step, dtype=dtype, context=context))
        return inputs

    def _due(self, step: StepPlan) -> list[int]:
        """Tenants that update at the step's end: named by the plan, with any label since their last update."""
        named = range(len(self.adapters)) if step.updates is None else sorted(set(step.updates))
        return [i for i in named if self.adapters[i].labels and not self.adapters[i].quarantined]

    def _judge(self, tally: Tally, due: Sequence[int]) -> tuple[int, ...]:
        """Tenants whose update is skipped; a tenant that fails too often in a row is quarantined."""
        for adapter, loss in zip(self.adapters, tally.losses, strict=True):
            adapter.finite = adapter.finite and math.isfinite(loss)
        skipped = []
        for tenant in due:
            adapter = self.adapters[tenant]
            if adapter.finite and math.isfinite(tally.norms[tenant]):
                adapter.strikes = 0
                continue
            skipped.append(tenant)
            adapter.strikes += 1
            adapter.quarantined = adapter.strikes >= self.settings.quarantine_after
        return tuple(skipped)

    def _update(self, mesh: Mesh, tenant: int, buffers: list[tuple[int, Tensor]], norm: float) -> None:
        adapter = self.adapters[tenant]
        factor = optimiser.clip_factor(adapter.tenant, norm) / adapter.labels
        optimiser.step(adapter, gradients_of(mesh, adapter, buffers), factor, self.settings)

    def _clear(self, due: Sequence[int]) -> None:
        """Forget the gradients of those who were due, and of those who never will be again."""
        for tenant, adapter in enumerate(self.adapters):
            if tenant in due or adapter.quarantined:
                adapter.labels, adapter.finite = 0, True
                for pair in adapter.pairs.values():
                    for matrix in pair:
                        matrix.value.grad = None

    def weights(self) -> Iterator[Tensor]:
        """Every tensor that this rank holds whatever it plays: frozen ones and adapters."""
        if self._stage is not None:
            yield from self._stage.weights()
        for adapter in self.adapters:
            for pair in adapter.pairs.values():
                yield from (matrix.value for matrix in pair)

    def export(self, name: str) -> TenantState:
        """A tenant's whole state, on every rank; all ranks must call."""
        return collect(self._adapter(name), leader=self._leads())

    def load(self, state: TenantState) -> None:
        """Put a whole state in a tenant's place; no communication."""
        restore(self._adapter(state.tenant.name), state, leader=self._leads())

    def _leads(self) -> bool:
        """Whether this rank's replica speaks for all: the first, which like every replica holds all layers."""
        place = self._deployed().place
        return place is not None and place.replica == 0

    def _adapter(self, name: str) -> Adapter:
        for adapter in self.adapters:
            if adapter.tenant.name == name:
                return adapter
        known = ", ".join(adapter.tenant.name for adapter in self.adapters)
        raise BadInput(f"there is no tenant '{name}'; the plan has {known}")

    def _deployed(self) -> Mesh:
        if self.mesh is None:
            raise BadInput("the first directive is a step plan; a deployment plan must come before it")
        return self.mesh
