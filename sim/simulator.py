"""The simulator: a backend that plays directives in fake time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lobra.check import check_step
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel
from lobra.trace import Span, StepReport
from sim.closed import closed_island
from sim.disturbance import Noise
from sim.island import play_island
from sim.prices import duration
from sim.step import everywhere, play_step

Fidelity = Literal["pipeline", "closed"]


@dataclass(frozen=True, slots=True)
class Simulator:
    """Plays directives one by one and reports each step as soon as it is over.

    A step is: re-deployment, if a new plan came before it; waiting for its planning, as far as that was not hidden;
    its micro-batches on all replicas; synchronisation of all. Its seconds are the sum, so the steps' seconds add up
    to the run.

    Planning is one ahead: a step is planned while the directive before it plays. That directive hides as many seconds
    as it takes: a step its work and synchronisation, a re-deployment its deploy_seconds, the first deployment none,
    so the first step's planning is fully visible. What is not hidden is `wait`.
    """

    cost: CostModel
    fidelity: Fidelity = "pipeline"  # events per micro-batch and stage, or the solvers' closed form
    planning_seconds: float | Sequence[float] = 0.0  # of every step, or replayed: of each step in the order of play
    noise: Noise | None = None
    spans: bool = True  # False: reports without spans, for long runs
    deploy_seconds: float = 0.0  # of a re-deployment in mid-stream; what is deployed first is free
    check: bool = True  # False: trust step plans that were checked before

    def __post_init__(self) -> None:
        if self.fidelity not in ("pipeline", "closed"):
            raise BadInput(f"simulator: fidelity is {self.fidelity!r}; choose pipeline or closed")
        duration(self.deploy_seconds, "simulator: deploy_seconds")
        if isinstance(self.planning_seconds, Sequence):
            object.__setattr__(self, "planning_seconds", tuple(self.planning_seconds))
        for seconds in self.planning_seconds if isinstance(self.planning_seconds, tuple) else (self.planning_seconds,):
            duration(seconds, "simulator: planning_seconds")

    def play(self, directives: Iterable[DeploymentPlan | StepPlan]) -> Iterator[StepReport]:
        """One report a step plan, in order; BadInput where a directive cannot be honoured, named by its field."""
        plan: DeploymentPlan | None = None
        clock = hidden = deploy = synchronise = 0.0
        number = 0
        for directive in directives:
            if isinstance(directive, DeploymentPlan):
                check_deployment(directive)
                hidden = self.deploy_seconds if plan is not None else 0.0
                deploy += hidden
                synchronise = duration(self.cost.synchronise_seconds(directive), "cost model: the synchronisation")
                plan = directive
            elif plan is None:
                raise BadInput(
                    f"step {directive.step}: no plan is deployed yet; begin the stream with a deployment plan"
                )
            else:
                wait = max(0.0, self._planning(number) - hidden)
                report, hidden = self._step(plan, directive, clock, deploy=deploy, wait=wait, synchronise=synchronise)
                clock, deploy, number = clock + report.seconds, 0.0, number + 1
                yield report

    def _planning(self, number: int) -> float:
        if not isinstance(self.planning_seconds, tuple):
            return float(self.planning_seconds)  # type: ignore[arg-type]
        if number >= len(self.planning_seconds):
            raise BadInput(
                f"simulator: planning_seconds holds {len(self.planning_seconds)} values, but the stream has "
                "more steps; give one a step"
            )
        return float(self.planning_seconds[number])

    def _step(
        self, plan: DeploymentPlan, step: StepPlan, clock: float, *, deploy: float, wait: float, synchronise: float
    ) -> tuple[StepReport, float]:
        """The report of one step that begins at `clock`, and the seconds in which the next one can be planned."""
        if not step.drain:
            raise BadInput(f"step {step.step}: drain is false, but the simulator flushes every step; use drain true")
        if self.check:
            check_step(plan, step)
        deployed = clock + deploy
        origin = deployed + wait
        played = play_step(
            plan,
            step,
            cost=self.cost,
            noise=self.noise,
            synchronise=synchronise,
            island=play_island if self.fidelity == "pipeline" else closed_island,
            origin=origin,
            spans=self.spans,
        )
        before: list[Span] = []
        if self.spans and deploy > 0:
            before += everywhere(plan, "deploy", clock, deployed)
        if self.spans and wait > 0:
            before += everywhere(plan, "wait", deployed, origin)
        report = StepReport(
            step.step,
            deploy + wait + played.seconds,
            plan.cluster.gpus,
            played.busy_gpu_seconds,
            played.tokens,
            played.useful_tokens,
            (*before, *played.spans),
            wait,
        )
        return report, played.seconds


def check_deployment(plan: DeploymentPlan) -> None:
    """Refuse what this simulator does not model."""
    for number, replica in enumerate(plan.replicas):
        if replica.config.fsdp > 1:
            raise BadInput(
                f"replica {number} {replica.config}: fsdp is {replica.config.fsdp}, but the simulator does not model "
                "the gathering of sharded weights; use fsdp 1"
            )
