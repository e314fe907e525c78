"""Random streams keyed by (seed, tenant's name, step): a tenant's sequences do not depend on who else is there."""

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

Purpose = Literal["step", "epoch"]


@dataclass(frozen=True, slots=True)
class Stream:
    """One tenant's source of randomness."""

    seed: int
    name: str

    def generator(self, purpose: Purpose, number: int) -> np.random.Generator:
        """A fresh generator for this step or epoch; the same for the same key on every machine."""
        digest = hashlib.sha256(f"{purpose}:{self.name}".encode()).digest()
        words = np.frombuffer(digest, dtype="<u4").tolist()
        return np.random.default_rng(np.random.SeedSequence([self.seed, *words, number]))
