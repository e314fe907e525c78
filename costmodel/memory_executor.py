"""Max tokens of this project's executor: nothing calibrated, every part counted from what its code holds.

Frozen weights divide by tp and by the stages, embedding and head stay whole on the ranks that hold them. Of every
adapted module one of both matrices is whole on every rank of the group (A of column modules, B of row modules).
Adapters, their gradients and Adam's two moments are float32 (16 bytes a parameter). Activations as in `memory_kept`, of
every micro-batch in flight. Workspace: the logits of one chunk of the loss, the canonical buffer of the largest
tenant's gradient, one layer made again where all are recomputed, and the wide gradients of one feed-forward block.

Limits: what an allocator makes of it and a library's own buffers are the reserve; bfloat16 norms on a CPU keep 2 hidden
more a layer; the LoRA back ends grouped and catmask keep more than the loop that is counted here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.memory import GIB, RESERVE, Breakdown, Rounding, adapter_widths, in_flight, round_down
from costmodel.memory_kept import kept, stage_kept
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.schedule import stage_sizes
from lobra.spec import GpuSpec, ModelSpec, Tenant

ROW_MODULES = ("o_proj", "down_proj")  # their inputs are split, their outputs are partial sums
LOSS_CHUNK = 1024  # tokens whose logits exist at once
LOSS_PRECISE = 2  # float32 copies of a chunk's logits


@dataclass(frozen=True, slots=True)
class ExecutorMemory:
    """Memory of one model on one kind of device under the executor; a `costmodel.layered.Memory`."""

    model: ModelSpec
    gpu: GpuSpec
    item: int = 2  # bytes of a frozen weight and of an activation: 2 for bfloat16, 4 for float32
    rounding: Rounding = "multiple"
    reserve: float = RESERVE

    def __post_init__(self) -> None:
        if self.item not in (2, 4, 8):
            raise BadInput(f"memory: item is {self.item} bytes; choose 2 (bfloat16), 4 (float32) or 8 (float64)")
        if not 0 <= self.reserve < 1:
            raise BadInput(f"memory: reserve is {self.reserve!r}; it is a share of the GPU, in [0, 1)")

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold, rounded down; 0 where weights and adapters leave no room."""
        return round_down(self.tokens(config, tenants), self.rounding)

    def tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> float:
        """The same, not rounded: on the heaviest stage."""
        return max(0.0, min(self._stage_tokens(config, tenants, stage) for stage in range(config.pp)))

    def covers(self, config: ReplicaConfig) -> bool:
        """Any configuration whose weights are not sharded over replicas: the executor keeps them whole."""
        return config.fsdp == 1

    def notes(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> tuple[str, ...]:
        """What a reader must know of it."""
        del config, tenants
        return ("max tokens from a count of what this project's executor holds, no allocator measured",)

    def breakdown(
        self,
        config: ReplicaConfig,
        tenants: Sequence[Tenant],
        tokens: float,
        stage: int = 0,
        microbatches: int | None = None,
    ) -> Breakdown:
        """Memory of one device of a stage when micro-batches hold so many tokens."""
        depth = in_flight(stage, config.pp, microbatches)
        trained = self._trained(config, tenants, stage)
        master = 8 if self.item == 8 else 4
        steady, each = self._workspace(config, tenants, stage)
        return Breakdown(
            weights=self._weight_bytes(config, stage) / GIB,
            adapters=master * trained / GIB,
            gradients=master * trained / GIB,
            optimiser=2 * master * trained / GIB,
            activations=depth * self._kept(config, tenants, stage) * tokens / GIB,
            logits=steady / GIB if stage == config.pp - 1 else 0.0,
            reserve=self.reserve * self.gpu.memory_gib,
            capacity=self.gpu.memory_gib,
            workspace=(each * tokens + self._sum_bytes(config, tenants, stage)) / GIB,
        )

    def _stage_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant], stage: int) -> float:
        empty = self.breakdown(config, tenants, 0, stage)
        one = self.breakdown(config, tenants, 1, stage)
        return empty.spare / (one.used - empty.used)

    def _kept(self, config: ReplicaConfig, tenants: Sequence[Tenant], stage: int) -> float:
        layers = stage_sizes(self.model.layers, config.pp)[stage]
        part = kept(self.model, tenants, config.tp, self.item)
        recomputed = min(layers, config.recompute)
        return stage_kept(part, layers, recomputed, first=stage == 0, last=stage == config.pp - 1)

    def _workspace(self, config: ReplicaConfig, tenants: Sequence[Tenant], stage: int) -> tuple[float, float]:
        """Bytes of a chunk of logits, and bytes a token of what kernels need for a moment."""
        layers = stage_sizes(self.model.layers, config.pp)[stage]
        part = kept(self.model, tenants, config.tp, self.item)
        again = part.layer - part.inputs if config.recompute >= layers else 0.0
        wide = self.item * (2 * self.model.intermediate / config.tp + 2 * self.model.hidden)
        return LOSS_CHUNK * self.model.vocabulary * (2 * self.item + 4 * LOSS_PRECISE), again + wide

    def _trained(self, config: ReplicaConfig, tenants: Sequence[Tenant], stage: int) -> float:
        """Trained parameters on one rank of a stage."""
        layers, total = stage_sizes(self.model.layers, config.pp)[stage], 0.0
        for tenant in tenants:
            for module, (inputs, outputs) in adapter_widths(self.model, tenant).items():
                split, whole = (inputs, outputs) if module in ROW_MODULES else (outputs, inputs)
                total += tenant.rank * (whole + split / config.tp)
        return layers * total

    def _sum_bytes(self, config: ReplicaConfig, tenants: Sequence[Tenant], stage: int) -> float:
        """The buffer in which one tenant's gradient is summed: its whole matrices of the layers of the stage."""
        layers = stage_sizes(self.model.layers, config.pp)[stage]
        sizes = [tenant.rank * sum(map(sum, adapter_widths(self.model, tenant).values())) for tenant in tenants]
        return (8 if self.item == 8 else 4) * layers * max(sizes, default=0)

    def _weight_bytes(self, config: ReplicaConfig, stage: int) -> float:
        model = self.model
        layers = stage_sizes(model.layers, config.pp)[stage]
        norms, table = 2 * model.hidden, model.vocabulary * model.hidden
        first, last = stage == 0, stage == config.pp - 1
        tables = table * (first + last - (first and last and model.tied_embeddings)) + model.hidden * last
        return self.item * (layers * ((model.layer_parameters - norms) / config.tp + norms) + tables)
