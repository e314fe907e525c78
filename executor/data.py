"""From a micro-batch to one flat stream of tokens.

All rows lie one behind another. A row with a single sequence keeps its padding, which attends but carries no label;
packed sequences follow each other, and what their rows leave unused gathers in one tail that belongs to nobody.
The stream is filled up so that every rank has a multiple of 8 tokens: matrix products then give a token the same bits
whoever stands beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from executor.keys import generator
from lobra.errors import BadInput
from lobra.plan import MicroBatch
from lobra.spec import SequenceRef

IGNORED = -100  # the label of a token without loss
ALIGNMENT = 8  # tokens of a rank; float64 products differ in the last (tokens mod 4) rows, measured

Tensor = torch.Tensor


class TokenSource(Protocol):
    """Tokens of a tenant's sequences."""

    def tokens(self, tenant: str, index: int, length: int, labels: int) -> tuple[Tensor, Tensor]:
        """(ids [length], labels [length]), int64: the token to predict at each position, or -100.

        `labels` is how many of them the plan counts.
        """


@dataclass(frozen=True, slots=True)
class SyntheticTokens:
    """Random tokens keyed by (seed, tenant, index); the last `labels` positions carry loss."""

    vocabulary: int
    seed: int = 0

    def tokens(self, tenant: str, index: int, length: int, labels: int) -> tuple[Tensor, Tensor]:
        """Ids and labels of one sequence."""
        drawn = torch.randint(
            self.vocabulary, (length + 1,), generator=generator("tokens", self.seed, tenant, index), dtype=torch.int64
        )
        targets = drawn[1:].clone()
        targets[: length - labels] = IGNORED
        return drawn[:-1], targets


@dataclass(frozen=True, slots=True)
class Piece:
    """One sequence in the stream, its padding included."""

    tenant: int
    index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring sequences of one tenant."""

    tenant: int
    pieces: tuple[Piece, ...]

    @property
    def start(self) -> int:
        """First token."""
        return self.pieces[0].start

    @property
    def end(self) -> int:
        """Token behind the last."""
        return self.pieces[-1].end


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """A micro-batch as tokens; ids, labels and positions are int64 [tokens]."""

    ids: Tensor
    labels: Tensor
    positions: Tensor  # from 0 in every sequence
    runs: tuple[Run, ...]

    def to(self, device: torch.device) -> "Stream":
        """The same stream with its tensors on a device."""
        return Stream(self.ids.to(device), self.labels.to(device), self.positions.to(device), self.runs)

    @property
    def tokens(self) -> int:
        """Tokens of the whole stream."""
        return len(self.ids)

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """(start, length) of every sequence; the tail is none."""
        return tuple((piece.start, piece.end - piece.start) for run in self.runs for piece in run.pieces)


def stream_tokens(microbatch: MicroBatch, tp: int) -> int:
    """Tokens of the stream: rows times width, filled up for tp ranks of every sharing replica."""
    unit = ALIGNMENT * tp * max(1, len(microbatch.group))
    return -(-len(microbatch.rows) * microbatch.width // unit) * unit


def pieces_of(microbatch: MicroBatch) -> list[tuple[SequenceRef, Piece]]:
    """Where each sequence lies in the stream."""
    placed, start = [], 0
    for row in microbatch.rows:
        for sequence in row:
            end = start + (microbatch.width if len(row) == 1 else sequence.length)
            placed.append((sequence, Piece(sequence.tenant, sequence.index, start, end)))
            start = end
    return placed


def runs_of(pieces: Sequence[Piece]) -> tuple[Run, ...]:
    """Neighbouring pieces of one tenant joined."""
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and runs[-1][-1].tenant == piece.tenant:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return tuple(Run(run[0].tenant, tuple(run)) for run in runs)


def build(
    microbatch: MicroBatch, tp: int, tenants: Sequence[str], source: TokenSource | None, vocabulary: int
) -> Stream:
    """The stream of a micro-batch for a replica of tp ranks a stage; BadInput where the source contradicts the plan.

    source None: a stage that neither embeds nor computes losses; ids and labels stay empty.
    """
    total = stream_tokens(microbatch, tp)
    ids = torch.zeros(total, dtype=torch.int64)
    labels = torch.full((total,), IGNORED, dtype=torch.int64)
    positions = torch.zeros(total, dtype=torch.int64)
    placed = pieces_of(microbatch)
    for sequence, piece in placed:
        positions[piece.start : piece.end] = torch.arange(piece.end - piece.start)
        if source is None:
            continue
        text, targets = source.tokens(tenants[sequence.tenant], sequence.index, sequence.length, sequence.labels)
        _check(tenants[sequence.tenant], sequence, text, targets, vocabulary)
        ids[piece.start : piece.start + sequence.length] = text
        labels[piece.start : piece.start + sequence.length] = targets
    return Stream(ids, labels, positions, runs_of([piece for _, piece in placed]))


def _check(tenant: str, sequence: SequenceRef, ids: Tensor, labels: Tensor, vocabulary: int) -> None:
    owner = f"tenant '{tenant}', sequence {sequence.index}"
    if sequence.length < 1:
        raise BadInput(f"{owner}: its length is {sequence.length}; leave empty sequences out of the plan")
    if ids.shape != (sequence.length,) or labels.shape != (sequence.length,):
        raise BadInput(
            f"{owner}: its source gives {len(ids)} tokens and {len(labels)} labels, but the plan says {sequence.length}"
        )
    kept = labels[labels != IGNORED]
    if len(kept) != sequence.labels:
        raise BadInput(f"{owner}: its source labels {len(kept)} tokens, but the plan counts {sequence.labels}")
    for what, values in (("token", ids), ("label", kept)):
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if not 0 <= low <= high < vocabulary:
            raise BadInput(f"{owner}: a {what} lies outside the vocabulary of {vocabulary}: {low}..{high}")
