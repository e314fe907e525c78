"""Who may begin: tenants of the queue in an order, as long as they fit together and nobody is slowed down too much.

The idea: each tenant of the queue, in the order chosen, joins those who train if the whole set has room in memory and
the step's slowdown stays within the limit for everybody; who does not fit is passed over (`backfill`) or holds up all
behind it. Orders: `arrival`; `fair` (the owner with the fewest tenants in training first); `deadline` (the earliest
first); `priority` (the largest first); ties by arrival. Limits: greedy, nobody is preempted, and passing over may
starve a large tenant, which `backfill=False` prevents.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.capacity.oracle import Oracle
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from policies.replanning.carrying import Impossible
from sim.fleet.nouns import Active, Job

Order = Literal["arrival", "fair", "deadline", "priority"]


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """What the fleet asks before anybody begins."""

    oracle: Oracle
    order: Order = "arrival"
    most: int | None = None  # tenants that train at once
    slowdown: float | None = None  # a joint step over the tenant's own alone, at most; None: any
    backfill: bool = True
    keeps_plan: bool = False  # only who fits the running plan while others train: nothing is re-deployed for anybody

    def __post_init__(self) -> None:
        if self.order not in ("arrival", "fair", "deadline", "priority"):
            raise BadInput(f"admission: order is {self.order!r}; choose arrival, fair, deadline or priority")
        if self.most is not None and self.most < 1:
            raise BadInput(f"admission: most is {self.most}; at least 1 tenant must train at once")
        if self.slowdown is not None and not 1 <= self.slowdown < math.inf:
            raise BadInput(f"admission: slowdown is {self.slowdown}; it must be a finite number, 1 or more")

    def __call__(
        self, now: float, queue: tuple[Job, ...], active: tuple[Active, ...], plan: DeploymentPlan | None, /
    ) -> tuple[str, ...]:
        """Names that begin now."""
        del now
        inside = [each.job.name for each in active]
        chosen: list[str] = []
        for job in self._ordered(queue, active):
            if self.most is not None and len(inside) >= self.most:
                break
            if self._together([*inside, job.name], plan if inside else None):
                inside.append(job.name)
                chosen.append(job.name)
            elif not self.backfill:
                break
        return tuple(chosen)

    def _ordered(self, queue: Sequence[Job], active: Sequence[Active]) -> Iterator[Job]:
        if self.order == "fair":
            yield from _fair(queue, active)
        elif self.order == "deadline":
            yield from sorted(queue, key=_deadline)
        elif self.order == "priority":
            yield from sorted(queue, key=lambda job: -job.priority)
        else:
            yield from queue

    def _together(self, names: Sequence[str], plan: DeploymentPlan | None) -> bool:
        """Whether these may train together; alone, a tenant's slowdown is 1."""
        kinds = self.oracle.kinds(names)
        if self.keeps_plan and plan is not None:
            kept = self.oracle.carried(plan, kinds)
            if isinstance(kept, Impossible):
                return False
        else:
            kept = None
            if not self.oracle.fits(kinds):
                return False
        if self.slowdown is None or len(names) == 1:
            return True
        together = self.oracle.time(kinds, kept or self.oracle.plan(kinds)).mean
        return all(together <= self.slowdown * self.oracle.alone_seconds(name) for name in names)


def _deadline(job: Job) -> float:
    return math.inf if job.deadline_seconds is None else job.at_seconds + job.deadline_seconds


def _fair(queue: Sequence[Job], active: Sequence[Active]) -> Iterator[Job]:
    """Always the owner with the fewest in training and before it in this order; the first to arrive of equals."""
    held = Counter(each.job.owner or each.job.name for each in active)
    left = list(queue)
    while left:
        job = min(left, key=lambda job: held[job.owner or job.name])
        left.remove(job)
        held[job.owner or job.name] += 1
        yield job
