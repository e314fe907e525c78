"""What measured and predicted steps of several policies say: errors, noise, order and winner."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lobra.batch import Array


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds of one policy's steps; of a policy with groups, of all its groups' steps one after another."""

    policy: str
    measured: Array  # float64 [rounds, steps]
    predicted: Array  # float64 [steps]

    @property
    def typical(self) -> Array:
        """The median over rounds; float64 [steps]."""
        found: Array = np.median(self.measured, axis=0)
        return found


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies, the faster one first as measured."""

    faster: str
    slower: str
    decided: bool  # every round puts them in the same order
    agreed: bool  # the simulator does too


def errors(steps: Sequence[Steps]) -> Array:
    """Relative errors of all steps, signed, against the medians."""
    return np.concatenate([each.predicted / each.typical - 1 for each in steps])


def repeat_noise(steps: Sequence[Steps]) -> float:
    """How far two plays of the same step are apart, as a share of their mean: the mean over steps and pairs of rounds.

    NaN for a single round.
    """
    apart = [
        np.abs(one - other) / ((one + other) / 2) for each in steps for one, other in combinations(each.measured, 2)
    ]
    return float(np.concatenate(apart).mean()) if apart else float("nan")


def drift(steps: Sequence[Steps]) -> list[float]:
    """Each round's seconds beside those of the medians: what a whole round was slower or faster; one a round."""
    usual = sum(float(each.typical.sum()) for each in steps)
    return [float(total) / usual for total in np.sum([each.measured.sum(axis=1) for each in steps], axis=0)]


def pairs(steps: Sequence[Steps]) -> list[Pair]:
    """Every two policies by the seconds of all their steps."""
    found = []
    for one, other in combinations(steps, 2):
        first, second = (one, other) if one.typical.sum() <= other.typical.sum() else (other, one)
        ahead = first.measured.sum(axis=1) < second.measured.sum(axis=1)
        told = bool(first.predicted.sum() < second.predicted.sum())
        found.append(Pair(first.policy, second.policy, bool(ahead.all()) and len(ahead) > 1, told))
    return found


def tau(found: Sequence[Pair]) -> float:
    """Kendall's rank correlation: 1 where all pairs agree, -1 where none does; NaN without a pair."""
    return float(np.mean([1.0 if pair.agreed else -1.0 for pair in found])) if found else float("nan")


def winner(steps: Sequence[Steps]) -> tuple[str, str]:
    """The fastest policy as measured, and as predicted."""
    measured = min(steps, key=lambda each: float(each.typical.sum()))
    predicted = min(steps, key=lambda each: float(each.predicted.sum()))
    return measured.policy, predicted.policy
