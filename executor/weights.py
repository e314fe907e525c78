"""Where the frozen weights come from: a source gives any rectangle of any tensor by its name."""

from dataclasses import dataclass
from typing import Protocol

import torch

from executor.config import ModelConfig, tensor_shapes
from executor.keys import generator
from lobra.errors import BadInput


class WeightSource(Protocol):
    """The base model's tensors by Hugging Face name."""

    def read(self, name: str, rows: slice | None = None, columns: slice | None = None) -> torch.Tensor:
        """That rectangle of the tensor (None: all of it), on the CPU."""


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """A model drawn from a seed; every tensor has its own stream, so that all layouts get the same model.

    Matrices are normal with variance 1 / inputs, norms lie near 1, biases near 0.
    """

    config: ModelConfig
    seed: int = 0

    def read(self, name: str, rows: slice | None = None, columns: slice | None = None) -> torch.Tensor:
        """That rectangle of the tensor, float32."""
        shapes = tensor_shapes(self.config)
        if name not in shapes:
            raise BadInput(f"the model has no tensor '{name}'")
        full = torch.randn(shapes[name], generator=generator("weight", self.seed, name))
        if full.dim() == 2:
            full *= full.shape[1] ** -0.5
            return full[rows or slice(None), columns or slice(None)].clone()
        full *= 0.1
        if not name.endswith(".bias"):
            full += 1
        return full[rows or slice(None)].clone()
