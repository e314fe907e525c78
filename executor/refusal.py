"""What can be refused without torch: directives that no rank of this job could run."""

from executor.order import check_order
from lobra.check import check_step
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan


class Gate:
    """Lets directives through in order; BadInput names what this executor cannot run."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._plan: DeploymentPlan | None = None

    def check(self, directive: DeploymentPlan | StepPlan) -> None:
        """Refuse it, or remember it."""
        if isinstance(directive, DeploymentPlan):
            self._check_plan(directive)
            self._plan = directive
        elif self._plan is None:
            raise BadInput(f"step {directive.step}: no plan is deployed yet; begin the stream with a deployment plan")
        else:
            _check_step(self._plan, directive)

    def _check_plan(self, plan: DeploymentPlan) -> None:
        if plan.cluster.gpus > self._ranks:
            raise BadInput(
                f"cluster '{plan.cluster.name}' has {plan.cluster.gpus} GPUs, but the job has {self._ranks} ranks; "
                "start one a GPU"
            )
        for number, replica in enumerate(plan.replicas):
            if replica.config.fsdp > 1:
                raise BadInput(
                    f"replica {number}: fsdp is {replica.config.fsdp}; the executor keeps weights whole on a stage's "
                    "ranks, use fsdp 1 (the simulator plays it)"
                )


def _check_step(plan: DeploymentPlan, step: StepPlan) -> None:
    if not step.drain:
        raise BadInput(
            f"step {step.step}: drain is false; the executor empties its pipelines between step plans, "
            "use drain true (the simulator plays it)"
        )
    check_step(plan, step)
    check_order(plan, step)
