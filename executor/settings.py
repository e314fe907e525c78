"""How the executor runs a plan: numeric types, back ends and the optimiser's constants; equal on all ranks."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from lobra.errors import BadInput

DataType = Literal["float64", "float32", "bfloat16"]
AttentionKind = Literal["auto", "loop", "mask", "varlen"]
LoraKind = Literal["loop", "grouped", "catmask"]
BUCKET_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Execution settings of one run."""

    dtype: DataType = "float32"
    attention: AttentionKind = "auto"
    lora: LoraKind = "loop"
    total_updates: int | None = None  # updates of a tenant over the run; schedules that decay need it
    quarantine_after: int = 3  # non-finite steps in a row
    bucket_bytes: int = BUCKET_BYTES  # of a tenant's gradient that are reduced at a time
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        for field, kind in (("dtype", DataType), ("attention", AttentionKind), ("lora", LoraKind)):
            if getattr(self, field) not in get_args(kind):
                raise BadInput(f"execution: {field} is {getattr(self, field)!r}; choose {', '.join(get_args(kind))}")
        if self.quarantine_after < 1:
            raise BadInput(f"execution: quarantine_after is {self.quarantine_after}; it counts steps, 1 or more")
        if self.total_updates is not None and self.total_updates < 1:
            raise BadInput(f"execution: total_updates is {self.total_updates}; it counts updates, 1 or more")
        if self.bucket_bytes < 1:
            raise BadInput(f"execution: bucket_bytes is {self.bucket_bytes}; it counts bytes, 1 or more")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.epsilon > 0):
            raise BadInput(
                f"execution: beta1 {self.beta1}, beta2 {self.beta2} must lie in [0, 1), epsilon {self.epsilon} above 0"
            )
        if self.lora == "grouped" and self.dtype == "float64":
            raise BadInput("execution: lora 'grouped' has no float64 kernel; choose loop or catmask, or another dtype")

    @property
    def compute(self) -> torch.dtype:
        """Type of weights and activations."""
        return {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}[self.dtype]

    @property
    def master(self) -> torch.dtype:
        """Type of adapters, their gradients and optimiser states: never less than float32."""
        return torch.float64 if self.dtype == "float64" else torch.float32
