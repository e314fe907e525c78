"""The architecture of the frozen base model: Llama 2 and 3, Qwen2 and 2.5, Mistral without sliding window."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lobra.errors import BadInput
from lobra.spec import TARGET_MODULES, ModelSpec, Tenant, positive

RopeKind = Literal["default", "linear", "llama3"]

COLUMN_MODULES = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")  # outputs are split over a stage's ranks
ROW_MODULES = ("o_proj", "down_proj")  # inputs are split
ATTENTION_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj")
BIASED_MODULES = ("q_proj", "k_proj", "v_proj")  # where the architecture has qkv biases


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions and how they are stretched to longer contexts."""

    theta: float = 10_000.0
    kind: RopeKind = "default"
    factor: float = 1.0
    low_frequency_factor: float = 1.0  # these three: llama3 only
    high_frequency_factor: float = 4.0
    original_context: int = 8192

    def __post_init__(self) -> None:
        if self.kind not in ("default", "linear", "llama3"):
            raise BadInput(f"rope: kind is {self.kind!r}; this executor knows default, linear and llama3")
        positive("rope", theta=self.theta, factor=self.factor, original_context=self.original_context)
        if self.kind == "llama3" and not self.high_frequency_factor > self.low_frequency_factor > 0:
            raise BadInput(
                f"rope: low_frequency_factor {self.low_frequency_factor} must lie above 0 and "
                f"below high_frequency_factor {self.high_frequency_factor}"
            )

    def frequencies(self, head_size: int) -> tuple[float, ...]:
        """Radians a position, one for each pair of a head's elements, [head_size / 2]."""
        plain = (self.theta ** (-2 * pair / head_size) for pair in range(head_size // 2))
        return tuple(self._scaled(frequency) for frequency in plain)

    def _scaled(self, frequency: float) -> float:
        if self.kind == "default":
            return frequency
        if self.kind == "linear":
            return frequency / self.factor
        turns = self.original_context * frequency / (2 * math.pi)  # full turns within the original context
        span = self.high_frequency_factor - self.low_frequency_factor
        kept = min(1.0, max(0.0, (turns - self.low_frequency_factor) / span))
        return kept * frequency + (1 - kept) * frequency / self.factor


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and constants of one base model."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    head_size: int
    rms_epsilon: float = 1e-6
    rope: Rope = Rope()
    qkv_bias: bool = False
    tied_embeddings: bool = False
    context: int | None = None  # positions it was trained for; None: nothing is known of a limit

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "intermediate", "heads", "kv_heads", "vocabulary", "head_size"):
            positive("model", **{field: getattr(self, field)})
        positive("model", rms_epsilon=self.rms_epsilon)
        if self.context is not None:
            positive("model", context=self.context)
        if self.heads % self.kv_heads:
            raise BadInput(f"model: heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.head_size % 2:
            raise BadInput(f"model: head_size is {self.head_size}; rotary positions need an even one")

    @classmethod
    def of(cls, spec: ModelSpec) -> "ModelConfig":
        """The plain Llama with the sizes of a plan's model."""
        return cls(
            layers=spec.layers,
            hidden=spec.hidden,
            intermediate=spec.intermediate,
            heads=spec.heads,
            kv_heads=spec.kv_heads,
            vocabulary=spec.vocabulary,
            head_size=spec.head_size,
            tied_embeddings=spec.tied_embeddings,
        )

    def module_shape(self, module: str) -> tuple[int, int]:
        """(outputs, inputs) of a linear layer."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        shapes = {
            "q_proj": (queries, self.hidden),
            "k_proj": (keys, self.hidden),
            "v_proj": (keys, self.hidden),
            "o_proj": (self.hidden, queries),
            "gate_proj": (self.intermediate, self.hidden),
            "up_proj": (self.intermediate, self.hidden),
            "down_proj": (self.hidden, self.intermediate),
        }
        if module not in shapes:
            raise BadInput(f"there is no module '{module}'; a layer has {', '.join(TARGET_MODULES)}")
        return shapes[module]

    def check_spec(self, spec: ModelSpec) -> None:
        """Refuse a plan made for a model of other sizes."""
        fields = ("layers", "hidden", "intermediate", "heads", "kv_heads", "vocabulary", "tied_embeddings")
        for field in fields:
            mine, planned = getattr(self, field), getattr(spec, field)
            if mine != planned:
                raise BadInput(
                    f"model: {field} is {mine}, but the plan was made for '{spec.name}' with {planned}; "
                    "plan again for this model"
                )

    def check_contexts(self, tenants: Sequence[Tenant]) -> None:
        """Refuse tenants whose sequences may be longer than the model was made for: it would compute nonsense."""
        for tenant in tenants:
            if self.context is not None and tenant.context_limit > self.context:
                raise BadInput(
                    f"tenant '{tenant.name}': context_limit is {tenant.context_limit}, but the model knows only "
                    f"{self.context} positions (max_position_embeddings); lower it (workload.max_length="
                    f"{self.context} lowers it for all tenants)"
                )

    def check_tp(self, tp: int) -> None:
        """Refuse a tensor parallelism that cannot split the heads or the feed-forward; name those that can."""
        if not self.allows_tp(tp):
            allowed = [str(size) for size in range(1, self.heads + 1) if self.allows_tp(size)]
            raise BadInput(
                f"tp {tp} cannot split {self.heads} heads, {self.kv_heads} kv_heads and intermediate "
                f"{self.intermediate}; use one of {', '.join(allowed)}"
            )

    def allows_tp(self, tp: int) -> bool:
        """Whether tp ranks can share a layer; fewer kv heads than ranks are replicated."""
        kv_split = self.kv_heads % tp == 0 or tp % self.kv_heads == 0
        return self.heads % tp == 0 and self.intermediate % tp == 0 and kv_split


def tensor_name(layer: int, module: str) -> str:
    """Name of a linear layer's weight without its suffix, as Hugging Face checkpoints call it."""
    parent = "self_attn" if module in ATTENTION_MODULES else "mlp"
    return f"model.layers.{layer}.{parent}.{module}"


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model by its Hugging Face name, with its full shape."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocabulary, config.hidden)}
    for layer in range(config.layers):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"model.layers.{layer}.{norm}.weight"] = (config.hidden,)
        for module in TARGET_MODULES:
            name = tensor_name(layer, module)
            shapes[f"{name}.weight"] = config.module_shape(module)
            if config.qkv_bias and module in BIASED_MODULES:
                shapes[f"{name}.bias"] = (config.module_shape(module)[0],)
    shapes["model.norm.weight"] = (config.hidden,)
    if not config.tied_embeddings:
        shapes["lm_head.weight"] = (config.vocabulary, config.hidden)
    return shapes
