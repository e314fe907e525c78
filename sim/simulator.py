"""The simulator: a backend that plays directives in fake time."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal

from lobra.check import check_step
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel
from lobra.trace import Span, StepReport
from sim.closed import closed_island
from sim.cores import Sharing, shared_cores
from sim.disturbance import Noise
from sim.island import play_island
from sim.prices import duration
from sim.step import Island, everywhere, play_step
from sim.undrained import Undrained

Fidelity = Literal["pipeline", "closed"]
Redeployment = Callable[[DeploymentPlan, DeploymentPlan], float]  # seconds from the running plan to the next


@dataclass(frozen=True, slots=True)
class Simulator:
    """Plays directives one by one and reports each step as soon as it is over.

    A step is: re-deployment, if a new plan came before it; waiting for its planning, as far as that was not hidden;
    its micro-batches on all replicas; synchronisation of all. Its seconds are the sum, so the steps' seconds add up
    to the run.

    Planning is one ahead: a step is planned while the directive before it plays. That directive hides as many seconds
    as it takes: a step its work and synchronisation, a re-deployment its deploy_seconds, the first deployment none,
    so the first step's planning is fully visible. What is not hidden is `wait`.

    Step plans with drain=False, and the drained one that ends them, are played as one stretch (see `sim.undrained`).
    """

    cost: CostModel
    fidelity: Fidelity = "pipeline"  # events per micro-batch and stage, or the solvers' closed form
    planning_seconds: float | Sequence[float] = 0.0  # of every step, or replayed: of each step in the order of play
    noise: Noise | None = None
    spans: bool = True  # False: reports without spans, for long runs
    deploy_seconds: float | Redeployment = 0.0  # of a re-deployment in mid-stream; what is deployed first is free
    check: bool = True  # False: trust step plans that were checked before
    sharing: Sharing | None = None  # ranks of a node share its cores; None: every rank has devices of its own

    def __post_init__(self) -> None:
        if self.fidelity not in ("pipeline", "closed"):
            raise BadInput(f"simulator: fidelity is {self.fidelity!r}; choose pipeline or closed")
        if self.sharing is not None and self.fidelity == "closed":
            raise BadInput("simulator: the closed form cannot share cores; use fidelity=pipeline")
        if not callable(self.deploy_seconds):
            duration(self.deploy_seconds, "simulator: deploy_seconds")
        if isinstance(self.planning_seconds, Sequence):
            object.__setattr__(self, "planning_seconds", tuple(self.planning_seconds))
        for seconds in self.planning_seconds if isinstance(self.planning_seconds, tuple) else (self.planning_seconds,):
            duration(seconds, "simulator: planning_seconds")

    def play(self, directives: Iterable[DeploymentPlan | StepPlan]) -> Iterator[StepReport]:
        """One report a step plan, in order; BadInput where a directive cannot be honoured, named by its field."""
        plan: DeploymentPlan | None = None
        stream = iter(directives)
        clock = hidden = deploy = synchronise = 0.0
        number = 0
        while (directive := next(stream, None)) is not None:
            if isinstance(directive, DeploymentPlan):
                check_deployment(directive)
                hidden = self._redeployment(plan, directive)
                deploy += hidden
                synchronise = duration(self.cost.synchronise_seconds(directive), "cost model: the synchronisation")
                plan = directive
            elif plan is None:
                raise BadInput(
                    f"step {directive.step}: no plan is deployed yet; begin the stream with a deployment plan"
                )
            else:
                wait = max(0.0, self._planning(number) - hidden)
                number += 1
                if directive.drain:
                    report, hidden = self._step(
                        plan, directive, clock, deploy=deploy, wait=wait, synchronise=synchronise
                    )
                    clock += report.seconds
                    yield report
                else:
                    played = self._stretch(plan, directive, stream, clock, deploy=deploy, wait=wait, number=number)
                    clock, hidden, number, stream = yield from played
                deploy = 0.0

    def _redeployment(self, before: DeploymentPlan | None, after: DeploymentPlan) -> float:
        if before is None:
            return 0.0
        if callable(self.deploy_seconds):
            return duration(self.deploy_seconds(before, after), "simulator: deploy_seconds")
        return self.deploy_seconds

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
            island=self._island(plan),
            origin=origin,
            spans=self.spans,
            together=self.sharing is not None,
        )
        report = StepReport(
            step.step,
            deploy + wait + played.seconds,
            plan.cluster.gpus,
            played.busy_gpu_seconds,
            played.tokens,
            played.useful_tokens,
            (*self._before(plan, clock, deploy=deploy, wait=wait), *played.spans),
            wait,
        )
        return report, played.seconds

    def _island(self, plan: DeploymentPlan) -> Island:
        """What plays replicas that meet."""
        if self.fidelity == "closed":
            return closed_island
        return (
            play_island
            if self.sharing is None
            else partial(play_island, cores=partial(shared_cores, plan, self.sharing))
        )

    def _stretch(
        self,
        plan: DeploymentPlan,
        first: StepPlan,
        stream: Iterator[DeploymentPlan | StepPlan],
        clock: float,
        *,
        deploy: float,
        wait: float,
        number: int,
    ) -> Generator[StepReport, None, tuple[float, float, int, Iterator[DeploymentPlan | StepPlan]]]:
        """Reports of the step plans until the pipelines are flushed; the clock, the hiding seconds, what is left."""
        if self.fidelity == "closed":
            raise BadInput(
                f"step {first.step}: drain is false, but the closed form flushes every step; use backend=sim"
            )
        if self.sharing is not None:
            raise BadInput(f"step {first.step}: drain is false, which the simulator cannot play on shared cores")
        before = self._before(plan, clock, deploy=deploy, wait=wait)
        played = Undrained(plan, self.cost, self.noise, clock, spans=self.spans, late=(deploy, wait), before=before)
        latest = first.step
        for step in chain([first], stream):
            if isinstance(step, DeploymentPlan):
                stream = chain([step], stream)
                break
            if self.check:
                check_step(plan, step)
            planning = None
            if step.step != latest:
                planning, number, latest = self._planning(number), number + 1, step.step
            yield from played.add(step, planning)
            if step.drain:
                break
        yield from played.end()
        return clock + deploy + wait + played.over, played.over - played.planned, number, stream

    def _before(self, plan: DeploymentPlan, clock: float, *, deploy: float, wait: float) -> list[Span]:
        """What stages see before their work: the deployment, then waiting."""
        spans: list[Span] = []
        if self.spans and deploy > 0:
            spans += everywhere(plan, "deploy", clock, clock + deploy)
        if self.spans and wait > 0:
            spans += everywhere(plan, "wait", clock + deploy, clock + deploy + wait)
        return spans


def check_deployment(plan: DeploymentPlan) -> None:
    """Refuse what this simulator does not model."""
    for number, replica in enumerate(plan.replicas):
        if replica.config.fsdp > 1:
            raise BadInput(
                f"replica {number} {replica.config}: fsdp is {replica.config.fsdp}, but the simulator does not model "
                "the gathering of sharded weights; use fsdp 1"
            )
