"""Synthetic tokens that can be learned: every tenant repeats a melody of its own, with wrong notes.

A tenant's melody is a cycle of distinct tokens. A sequence enters it anywhere and follows it, except that each token is
with a fixed probability any token of the melody instead. A model that has learned the melody's tokens predicts them
with ln(period) nats, one that has learned their order with less.
"""

from dataclasses import dataclass

import torch

from executor.data import IGNORED
from executor.keys import generator
from lobra.errors import BadInput

Tensor = torch.Tensor

PERIOD = 16  # tokens of a melody
WRONG = 0.1  # probability of a wrong note


@dataclass(frozen=True, slots=True)
class PatternedTokens:
    """Melodies keyed by (seed, tenant); an `executor.data.TokenSource`. The last `labels` positions carry loss."""

    vocabulary: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.vocabulary < PERIOD:
            raise BadInput(f"execution: data patterns need a vocabulary of {PERIOD} tokens or more; use kind synthetic")

    def tokens(self, tenant: str, index: int, length: int, labels: int) -> tuple[Tensor, Tensor]:
        """Ids and labels of one sequence, int64 [length]."""
        own = generator("melody", self.seed, tenant)
        melody = torch.randperm(self.vocabulary, generator=own)[:PERIOD]
        dice = generator("patterns", self.seed, tenant, index)
        entry = torch.randint(PERIOD, (1,), generator=dice)
        notes = (entry + torch.arange(length + 1)) % PERIOD
        wrong = torch.rand(length + 1, generator=dice) < WRONG
        notes = torch.where(wrong, torch.randint(PERIOD, (length + 1,), generator=dice), notes)
        text = melody[notes]
        targets = text[1:].clone()
        targets[: length - labels] = IGNORED
        return text[:-1], targets
