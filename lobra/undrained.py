"""Pipelines that nobody flushes: where step plans lie in them, and how soon a tenant may come back.

A stretch is a run of step plans of which all but the last have drain=False. Its slots are counted through: a step plan
takes as many as its longest work, at least one; a replica with less work leaves its last slots empty, and so a step
plan without work is one empty slot of every pipeline.
"""

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan


def slots(step: StepPlan) -> int:
    """Slots that a step plan of a stretch takes in every pipeline."""
    return max(1, *map(len, step.work))


class Stretch:
    """Lets the step plans of one stretch pass, in order.

    The tenants of `updates` step when the last slot so far has left the pipelines. On a first stage the forward of slot
    p follows the backward of slot p - pp, so they may come back behind the next pp - 1 slots.
    """

    __slots__ = ("_barred", "_depth", "_next", "_tenants")

    def __init__(self, plan: DeploymentPlan) -> None:
        self._depth = max(replica.config.pp for replica in plan.replicas)
        self._tenants = range(len(plan.tenants))
        self._barred: dict[int, int] = {}  # tenant -> the first slot that is open to it again
        self._next = 0

    def admit(self, step: StepPlan) -> None:
        """Take its slots; BadInput where a tenant comes back too soon, or replicas would meet."""
        for replica, work in enumerate(step.work):
            for number, microbatch in enumerate(work):
                if microbatch.group:
                    raise BadInput(
                        f"step {step.step}: replica {replica} shares a micro-batch with {microbatch.group} in an "
                        "undrained pipeline; use drain true before and in this step plan"
                    )
                for row in microbatch.rows:
                    for sequence in row:
                        early = self._barred.get(sequence.tenant, 0) - (self._next + number)
                        if early > 0:
                            raise BadInput(
                                f"step {step.step}: tenant {sequence.tenant} comes back to replica {replica} {early} "
                                f"slots before its update is done; {self._depth - 1} must lie between, empty ones too"
                            )
        self._next += slots(step)
        for tenant in self._tenants if step.updates is None else step.updates:
            self._barred[tenant] = self._next + self._depth - 1
