"""Noise: what makes two runs of the same plan differ, from streams that no order of events can change."""

import math
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput


@dataclass(frozen=True, slots=True)
class Noise:
    """Jitter of every operation and stragglers among the replicas.

    Every stream is keyed by (seed, step, replica, stage), so a micro-batch's jitter depends neither on the order of
    events nor on the micro-batches behind it. Transfers and the synchronisation stay as the cost model says.
    """

    seed: int = 0
    jitter_sigma: float = 0.0  # of the logarithm; every operation's factor is log-normal with mean 1
    straggler_probability: float = 0.0  # of each replica, anew in every step
    straggler_factor: float = 1.0  # by which all operations of a straggler are slower in that step

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadInput(f"noise: seed is {self.seed}; it must not be negative")
        if not 0 <= self.jitter_sigma < math.inf:
            raise BadInput(f"noise: jitter_sigma is {self.jitter_sigma}; it must be a finite number, 0 or more")
        if not 0 <= self.straggler_probability <= 1:
            raise BadInput(f"noise: straggler_probability is {self.straggler_probability}; it must lie in [0, 1]")
        if not 1 <= self.straggler_factor < math.inf:
            raise BadInput(f"noise: straggler_factor is {self.straggler_factor}; it must be a finite number, 1 or more")
        if self.straggler_probability > 0 and self.straggler_factor == 1:
            raise BadInput("noise: straggler_factor is 1, which slows nobody; give a factor above 1 or probability 0")

    def slowdown(self, step: int, replica: int) -> float:
        """The factor of a whole replica in one step: 1, or that of a straggler."""
        if self.straggler_probability == 0:
            return 1.0
        drawn = self._stream(0, step, replica).random()
        return self.straggler_factor if drawn < self.straggler_probability else 1.0

    def jitter(self, step: int, replica: int, stage: int, microbatches: int) -> Array:
        """Factors of the forward and the backward of each micro-batch on one stage; float64 [microbatches, 2]."""
        if self.jitter_sigma == 0:
            return np.ones((microbatches, 2))
        normal = self._stream(1, step, replica, stage).standard_normal((microbatches, 2))
        factors: Array = np.exp(self.jitter_sigma * normal - self.jitter_sigma**2 / 2)
        return factors

    def _stream(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))
