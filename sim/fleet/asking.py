"""What a fleet asks of those who know plans and prices. The fleet itself looks into no plan."""

from typing import Protocol, TypeVar

from sim.fleet.nouns import Active, Cause, Job, P, StepTime, Verdict

P_contra = TypeVar("P_contra", contravariant=True)  # plans that are only taken, never given back


class StepTimes(Protocol[P_contra]):
    """How long."""

    def __call__(self, jobs: tuple[str, ...], plan: P_contra, /) -> StepTime:
        """A step of these tenants, sorted by name, on this plan."""


class Admit(Protocol[P_contra]):
    """Who may begin."""

    def __call__(
        self, now: float, queue: tuple[Job, ...], active: tuple[Active, ...], plan: P_contra | None, /
    ) -> tuple[str, ...]:
        """Names of the queue (in the order of arrival) that train from now on; asked whenever anything changed."""


class Decide(Protocol[P]):
    """Keep or re-deploy."""

    def __call__(self, now: float, running: P | None, jobs: tuple[str, ...], cause: Cause, /) -> Verdict[P]:
        """The plan for these tenants, sorted by name, at least one; nothing runs yet where `running` is None."""


def all_at_once(
    now: float, queue: tuple[Job, ...], active: tuple[Active, ...], plan: object | None, /
) -> tuple[str, ...]:
    """Everybody, as soon as they come."""
    del now, active, plan
    return tuple(job.name for job in queue)
