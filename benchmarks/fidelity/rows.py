"""Predictions beside measurements that they were not fitted to, and the row of the fidelity table that they make."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lobra.batch import Array

RANGES = (("N < 512", 0, 512), ("512-4k", 512, 4096), (">= 4k", 4096, float("inf")))
SEED, FOLDS = 0, 5


@dataclass(frozen=True)
class Held:
    """Held-out predictions; columns of [n], seconds (or any one unit) and tokens of a micro-batch."""

    predicted: Array
    measured: Array
    groups: tuple[str, ...]  # the bucket of each point
    tokens: Array | None = None

    @property
    def errors(self) -> Array:
        """Relative errors, signed."""
        found: Array = self.predicted / self.measured - 1
        return found

    @property
    def mean(self) -> float:
        """Mean relative error, unsigned."""
        return float(np.abs(self.errors).mean())

    def by_group(self) -> dict[str, float]:
        """Mean unsigned error of each bucket."""
        names, errors = np.array(self.groups), np.abs(self.errors)
        return {str(name): float(errors[names == name].mean()) for name in np.unique(names)}

    def by_range(self) -> dict[str, float]:
        """Mean unsigned error by tokens of the micro-batch; ranges without a point are left out."""
        if self.tokens is None:
            return {}
        errors, found = np.abs(self.errors), {}
        for name, low, high in RANGES:
            inside = (self.tokens >= low) & (self.tokens < high)
            if inside.any():
                found[name] = float(errors[inside].mean())
        return found


@dataclass(frozen=True)
class Row:
    """One line of the table. bar None: reported, not judged; n: points behind the figure."""

    evidence: str
    figure: float
    bar: float | None
    n: int
    fitted: str  # what was fitted, and what not
    held: Held | None = None
    holds: bool | None = None
    repeat_noise: str = "unknown"
    notes: tuple[str, ...] = ()
    beside: dict[str, float] = field(default_factory=dict)  # other figures worth a look
    out_of_sample: bool = True


def row(
    evidence: str,
    held: Held,
    bar: float | None,
    fitted: str,
    *,
    noise: str = "unknown",
    notes: Sequence[str] = (),
    worst: float | None = None,
    beside: dict[str, float] | None = None,
) -> Row:
    """A row whose figure is the mean relative error; worst: a bar of the largest error, which must hold too."""
    holds = None if bar is None else held.mean <= bar
    if holds and worst is not None:
        holds = float(np.abs(held.errors).max()) <= worst
    return Row(evidence, held.mean, bar, len(held.measured), fitted, held, holds, noise, tuple(notes), beside or {})


def leave_out(labels: Sequence[object]) -> Iterator[Array]:
    """A mask [n] for each label in turn: the points that it holds out."""
    known = np.array([str(label) for label in labels])
    for label in dict.fromkeys(known):
        yield known == label


def folds(count: int, seed: int = SEED) -> Iterator[Array]:
    """Masks [n] of five folds, drawn by lot."""
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(count)
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count) % FOLDS
    for number in range(FOLDS):
        yield place == number


def one_scalar(held: Held, masks: Iterator[Array]) -> Held:
    """The same predictions times one factor, fitted (in the logarithm) to all points but the ones held out."""
    out = np.empty_like(held.predicted)
    ratio = np.log(held.measured / held.predicted)
    for mask in masks:
        out[mask] = held.predicted[mask] * np.exp(ratio[~mask].mean())
    return replace(held, predicted=out)


def one_part(held: Held, part: Array, masks: Iterator[Array]) -> tuple[Held, Array]:
    """Predictions plus k times a part [n], k >= 0 of least relative squares on the points not held out; and every k."""
    out, found = np.empty_like(held.predicted), []
    missing, weight = held.measured - held.predicted, held.measured**-2
    for mask in masks:
        kept = ~mask
        k = max(0.0, float((missing * part * weight)[kept].sum() / (part**2 * weight)[kept].sum()))
        out[mask] = held.predicted[mask] + k * part[mask]
        found.append(k)
    return replace(held, predicted=out), np.array(found)


def joined(parts: Sequence[Held]) -> Held:
    """Several, one after another; tokens only where all have them."""
    tokens = [part.tokens for part in parts if part.tokens is not None]
    return Held(
        np.concatenate([part.predicted for part in parts]),
        np.concatenate([part.measured for part in parts]),
        tuple(group for part in parts for group in part.groups),
        np.concatenate(tokens) if len(tokens) == len(parts) else None,
    )


def held_out(count: int, masks: Iterator[Array], predict: Callable[[Array], Array]) -> Array:
    """Predictions [n] of every point by a fit to the others; predict takes the mask held out and answers for it."""
    out = np.full(count, np.nan)
    for mask in masks:
        out[mask] = predict(mask)
    return out
