"""How many tokens fit: an analytic account of one GPU's memory, stage by stage.

Counted on the GPU of each stage: its share of the frozen weights (bfloat16), the adapters of the tenants who are there
with their gradients and Adam state, activations of every micro-batch in flight (stage s of p holds p - s under 1F1B),
logits on the last stage, and a declared reserve. The heaviest stage decides; memory is never pooled over GPUs. Sequence
parallelism is assumed: activations divide by tp.

A layer saves about 6 h + 2 h kv / heads + 4 f numbers a token (inputs of norms, q, k, v, attention, feed-forward). What
an engine really holds is more: SAVED_FACTOR is calibrated so that 7B on A100-40GB with six tenants gives the paper's
table for <tp,1>; adapters wider than its tenants' add their rank-wide products, tenants with dropout a copy of every
input that they drop. A recomputed layer saves its input alone. The recomputed layers are the first of their stage:
their turn in backward comes last, when what the others saved is free again; only where all are recomputed one more is
held.

Measured elsewhere: Galvatron's profile of full bfloat16 training, Llama-2-7B with sequence parallelism, says 1.72 at
tp 1 and 1.82 at tp 2 to 8 for the same constant; it counts 16 KiB for a recomputed layer's token where this counts 8.

Limits: one constant calibrated on one engine; of the other ten entries of that table it gives eight, <1,8> one power of
two lower and <4,4> one higher (where the table's own limit, 16384 tokens, is set aside: <8,2> reaches 32768).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.memory_kept import dropped_numbers
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.schedule import stage_sizes
from lobra.spec import GpuSpec, ModelSpec, Tenant

Rounding = Literal["power_of_two", "multiple"]

GIB = 2**30
WEIGHT_BYTES = 2  # bfloat16
ADAPTER_BYTES = 2  # bfloat16
GRADIENT_BYTES = 2  # bfloat16, of trained parameters only
OPTIMISER_BYTES = 12  # fp32 master copy, and Adam's two moments, of trained parameters only
LOGIT_BYTES = 8  # a vocabulary entry: bfloat16 logits, their gradient, fp32 for the softmax
SAVED_FACTOR = 1.87  # see above
CALIBRATED_RANKS = 7 * 16  # of the tenants of that calibration: rank 16 on seven modules
RESERVE = 0.08  # of the GPU: context, communication buffers, fragmentation
MULTIPLE = 128  # tokens: A100 GEMM times jump at multiples of it


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the memory of one GPU of one stage goes, in GiB; spare is what is left, below 0 where it does not fit."""

    weights: float
    adapters: float
    gradients: float
    optimiser: float
    activations: float
    logits: float
    reserve: float
    capacity: float
    workspace: float = 0.0  # what is needed for a moment; where it is not apart, activations or reserve hold it

    @property
    def used(self) -> float:
        """All parts together, the reserve included."""
        trained = self.adapters + self.gradients + self.optimiser
        return self.weights + trained + self.activations + self.logits + self.workspace + self.reserve

    @property
    def spare(self) -> float:
        """Capacity minus what is used."""
        return self.capacity - self.used


def adapter_widths(model: ModelSpec, tenant: Tenant) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of every module that a tenant adapts, by name."""
    hidden, narrow, wide = model.hidden, model.head_size * model.kv_heads, model.intermediate
    widths = {
        "q_proj": (hidden, hidden),
        "k_proj": (hidden, narrow),
        "v_proj": (hidden, narrow),
        "o_proj": (hidden, hidden),
        "gate_proj": (hidden, wide),
        "up_proj": (hidden, wide),
        "down_proj": (wide, hidden),
    }
    unknown = [module for module in tenant.target_modules if module not in widths]
    if unknown:
        raise BadInput(f"tenant '{tenant.name}': target_modules names {unknown[0]!r}; choose among {', '.join(widths)}")
    return {module: widths[module] for module in tenant.target_modules}


def adapter_parameters(model: ModelSpec, tenant: Tenant) -> int:
    """Trained parameters of a tenant in one layer: rank times the sum of both widths of each target module."""
    return tenant.rank * sum(map(sum, adapter_widths(model, tenant).values()))


def in_flight(stage: int, stages: int, microbatches: int | None = None) -> int:
    """Micro-batches whose activations a stage holds at once under 1F1B; of any number unless told otherwise."""
    depth = stages - stage
    return depth if microbatches is None else min(depth, microbatches)


@dataclass(frozen=True, slots=True)
class AnalyticMemory:
    """Memory of one model on one kind of GPU."""

    model: ModelSpec
    gpu: GpuSpec
    rounding: Rounding = "multiple"
    reserve: float = RESERVE
    saved_factor: float = SAVED_FACTOR

    def __post_init__(self) -> None:
        if self.rounding not in ("power_of_two", "multiple"):
            raise BadInput(f"memory: rounding is {self.rounding!r}; choose power_of_two or multiple")
        if not 0 <= self.reserve < 1:
            raise BadInput(f"memory: reserve is {self.reserve!r}; it is a share of the GPU, in [0, 1)")

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold, rounded down; 0 where weights and adapters leave no room."""
        return round_down(self.tokens(config, tenants), self.rounding)

    def covers(self, config: ReplicaConfig) -> bool:
        """Any configuration."""
        del config
        return True

    def notes(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> tuple[str, ...]:
        """What a reader must know of it."""
        del config, tenants
        return ("max tokens from an analytic memory model calibrated on Llama-2-7B, A100-40GB",)

    def tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> float:
        """The same, not rounded."""
        trained = sum(adapter_parameters(self.model, tenant) for tenant in tenants)
        stages = range(config.pp)
        return max(0.0, min(self._stage_tokens(config, tenants, trained, stage) for stage in stages))

    def breakdown(
        self,
        config: ReplicaConfig,
        tenants: Sequence[Tenant],
        tokens: int,
        stage: int = 0,
        microbatches: int | None = None,
    ) -> Breakdown:
        """Memory of one GPU of a stage when micro-batches hold so many tokens."""
        trained = sum(adapter_parameters(self.model, tenant) for tenant in tenants)
        layers = stage_sizes(self.model.layers, config.pp)[stage]
        parameters = trained * layers / config.tp
        activations, logits = self._token_bytes(config, tenants, stage, in_flight(stage, config.pp, microbatches))
        return Breakdown(
            weights=self._weight_bytes(config, stage) / GIB,
            adapters=ADAPTER_BYTES * parameters / GIB,
            gradients=GRADIENT_BYTES * parameters / GIB,
            optimiser=OPTIMISER_BYTES * parameters / GIB,
            activations=activations * tokens / GIB,
            logits=logits * tokens / GIB,
            reserve=self.reserve * self.gpu.memory_gib,
            capacity=self.gpu.memory_gib,
        )

    def _stage_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant], trained: int, stage: int) -> float:
        layers = stage_sizes(self.model.layers, config.pp)[stage]
        state = (ADAPTER_BYTES + GRADIENT_BYTES + OPTIMISER_BYTES) * trained * layers / config.tp
        room = self.gpu.memory_gib * GIB * (1 - self.reserve) - state - self._weight_bytes(config, stage)
        return room / sum(self._token_bytes(config, tenants, stage, in_flight(stage, config.pp)))

    def _weight_bytes(self, config: ReplicaConfig, stage: int) -> float:
        """Frozen weights of a stage on one GPU; a sharded model holds one gathered layer (and the next) besides."""
        model = self.model
        layers = stage_sizes(model.layers, config.pp)[stage]
        table = model.vocabulary * model.hidden
        first, last = stage == 0, stage == config.pp - 1
        tables = (table if first else 0) + (table + model.hidden if last else 0)
        if first and last and model.tied_embeddings:
            tables -= table
        whole = WEIGHT_BYTES * (layers * model.layer_parameters + tables) / config.tp
        if config.fsdp == 1:
            return whole
        return whole / config.fsdp + min(2, layers) * WEIGHT_BYTES * model.layer_parameters / config.tp

    def _token_bytes(
        self, config: ReplicaConfig, tenants: Sequence[Tenant], stage: int, depth: int
    ) -> tuple[float, float]:
        """Bytes a token of activations and of logits on one GPU of a stage."""
        model = self.model
        layers = stage_sizes(model.layers, config.pp)[stage]
        recomputed = min(config.recompute, layers)
        attention = 6 * model.hidden + 2 * model.head_size * model.kv_heads
        ranks = max((tenant.rank * len(tenant.target_modules) for tenant in tenants), default=0)
        lora = max(0, ranks - CALIBRATED_RANKS) + dropped_numbers(model, tenants, config.tp)
        saved = 2 * self.saved_factor * (attention + 4 * model.intermediate) / config.tp + 2 * lora
        kept = 2 * model.hidden / config.tp  # the input of a recomputed layer
        activations = depth * ((layers - recomputed) * saved + recomputed * kept)
        if recomputed == layers:
            activations += saved - kept  # the one that is being recomputed
        logits = LOGIT_BYTES * model.vocabulary / config.tp if stage == config.pp - 1 else 0.0
        return activations, logits


def round_down(tokens: float, rounding: Rounding) -> int:
    """Whole tokens: the power of two below, or the multiple of 128 below."""
    if rounding == "power_of_two":
        return 1 << (int(tokens).bit_length() - 1) if tokens >= 1 else 0
    return int(tokens) // MULTIPLE * MULTIPLE
