"""Nodes that are lost: when, with what notice, and what training on them keeps.

Losses of a node are a Poisson process of their own, keyed by (seed, node), so whoever runs on a node loses it at the
same moments: one job on all nodes is stopped by each of them, jobs on nodes of their own by their own. A loss takes the
whole node and everybody who trains on it. Training writes a checkpoint after every so many steps and whenever tenants
change; a loss takes what came after the last one, unless its notice is long enough to write another. A restart lasts
until no node is lost in it. Losses while nobody trains are not felt: another node is there in time.
"""

import heapq
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lobra.errors import BadInput
from lobra.spec import positive

ROUNDING = 1e-9  # of a step or cycle
BLOCK = 64  # gaps drawn at once
HOPELESS = 20  # mean times between losses that a checkpoint and the work before it may take, at most: e^20 attempts


class Lost(NamedTuple):
    """A node goes."""

    at_seconds: float
    node: int


@dataclass(frozen=True, slots=True)
class NodeLosses:
    """The nodes of one job and how they are lost."""

    node_mean_seconds: float  # between losses of one node
    nodes: tuple[int, ...]
    seed: int = 0
    notice_seconds: float = 0.0  # before the loss

    def __post_init__(self) -> None:
        positive("node losses", node_mean_seconds=self.node_mean_seconds, nodes=len(self.nodes))
        if len(set(self.nodes)) < len(self.nodes) or min(self.nodes) < 0 or self.seed < 0:
            raise BadInput(f"node losses: nodes {self.nodes} and seed {self.seed}; each node once, numbers from 0 up")
        if not 0 <= self.notice_seconds < math.inf:
            raise BadInput(
                f"node losses: notice_seconds is {self.notice_seconds}; it must be a finite number, 0 or more"
            )

    @property
    def mean_seconds(self) -> float:
        """Between losses of the job."""
        return self.node_mean_seconds / len(self.nodes)

    def coming(self) -> Iterator[Lost]:
        """All of them in time, without end."""
        return heapq.merge(*(self._of(node) for node in self.nodes))

    def _of(self, node: int) -> Iterator[Lost]:
        stream = np.random.default_rng(np.random.SeedSequence([self.seed, zlib.crc32(b"node losses"), node]))
        now = 0.0
        while True:
            for gap in stream.exponential(self.node_mean_seconds, BLOCK).tolist():
                now += gap
                yield Lost(now, node)


@dataclass(frozen=True, slots=True)
class Fragile:
    """Training on nodes that are lost."""

    losses: NodeLosses
    checkpoint_seconds: float  # all states written; nobody trains meanwhile
    interval_seconds: float  # of training between checkpoints, in whole steps
    restart_seconds: float = 0.0  # another node found, states read, groups formed

    def __post_init__(self) -> None:
        positive("failures", interval_seconds=self.interval_seconds)
        for name in ("checkpoint_seconds", "restart_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                raise BadInput(f"failures: {name} is {getattr(self, name)}; it must be a finite number, 0 or more")
        mean = self.losses.mean_seconds
        for name in ("interval_seconds", "restart_seconds"):
            if getattr(self, name) + self.checkpoint_seconds > HOPELESS * mean:
                raise BadInput(
                    f"failures: {name} is {getattr(self, name):g}, but a node is lost every {mean:g} s on average and "
                    "nothing would ever be finished; give less, or fewer nodes"
                )

    def pace(self, step_seconds: float) -> "Pace":
        """Steps of so many seconds with checkpoints between."""
        if step_seconds + self.checkpoint_seconds > HOPELESS * self.losses.mean_seconds:
            raise BadInput(
                f"failures: a step of {step_seconds:g} s and its checkpoint would never be finished, for a node is "
                f"lost every {self.losses.mean_seconds:g} s on average; give shorter steps, or fewer nodes"
            )
        return Pace(step_seconds, max(1, round(self.interval_seconds / step_seconds)), self.checkpoint_seconds)

    def saves_on_notice(self) -> bool:
        """Whether a checkpoint can be written between notice and loss."""
        return 0 < self.checkpoint_seconds <= self.losses.notice_seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """Steps in cycles: so many, then a checkpoint."""

    step_seconds: float
    cycle_steps: int
    checkpoint_seconds: float

    @property
    def cycle_seconds(self) -> float:
        """Of a whole one."""
        return self.cycle_steps * self.step_seconds + self.checkpoint_seconds

    def seconds(self, steps: int) -> float:
        """Until so many steps are done and saved."""
        return steps * self.step_seconds + -(-steps // self.cycle_steps) * self.checkpoint_seconds

    def begun(self, elapsed: float) -> int:
        """Steps that are done when the one under way is."""
        return self._steps(elapsed, math.ceil, -ROUNDING)

    def done(self, elapsed: float) -> int:
        """Whole steps done, saved or not."""
        return self._steps(elapsed, math.floor, ROUNDING)

    def saved(self, elapsed: float) -> int:
        """Steps that the last whole checkpoint holds."""
        return math.floor(elapsed / self.cycle_seconds + ROUNDING) * self.cycle_steps

    def _steps(self, elapsed: float, whole: Callable[[float], int], rounding: float) -> int:
        cycles = math.floor(elapsed / self.cycle_seconds + ROUNDING)
        rest = max(0.0, elapsed - cycles * self.cycle_seconds)
        return cycles * self.cycle_steps + min(self.cycle_steps, max(0, whole(rest / self.step_seconds + rounding)))


def kept(fragile: Fragile, pace: Pace, elapsed: float) -> int:
    """Steps that survive a loss so long after all was saved."""
    saved = pace.saved(elapsed)
    warned = elapsed - fragile.losses.notice_seconds
    return max(saved, pace.done(warned)) if fragile.saves_on_notice() and warned > 0 else saved


def restarted(fragile: Fragile, coming: Iterator[Lost], lost: Lost) -> tuple[float, Lost]:
    """When training goes on after this loss, and the next loss after that."""
    up = lost.at_seconds + fragile.restart_seconds
    following = next(coming)
    while following.at_seconds < up:
        up = following.at_seconds + fragile.restart_seconds
        following = next(coming)
    return up, following
