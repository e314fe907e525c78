"""One step: every island of replicas plays its work, then all replicas synchronise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from lobra.plan import DeploymentPlan, StepPlan
from lobra.protocols import CostModel
from lobra.trace import Span, SpanKind
from sim.disturbance import Noise
from sim.prices import Prices, price
from sim.rendezvous import Work, islands

Island = Callable[[int, Mapping[int, Prices], Work, float, list[Span] | None], float]


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one step, waiting and deployment left out."""

    seconds: float  # work and synchronisation
    busy_gpu_seconds: float
    tokens: int
    useful_tokens: int
    spans: list[Span]  # by start, then replica, then stage, then order of the schedule


def play_step(
    plan: DeploymentPlan,
    step: StepPlan,
    *,
    cost: CostModel,
    noise: Noise | None,
    synchronise: float,
    island: Island,
    origin: float,
    spans: bool,
    together: bool = False,
) -> Played:
    """Play the islands one after another, each from time 0, so that neither their order nor the past changes a bit.

    `origin` is added to the times of spans; `island` plays replicas that meet and gives their seconds; together: all
    replicas are one island, since they share cores.
    """
    log: list[Span] | None = [] if spans else None
    longest = busy = 0.0
    tokens = useful = 0
    for members in [list(range(len(step.work)))] if together else islands(step.work):
        prices = {replica: price(plan, step, replica, cost, noise) for replica in members}
        longest = max(longest, island(step.step, prices, step.work, origin, log))
        for replica, costs in prices.items():
            busy += costs.busy_seconds * plan.replicas[replica].config.tp
            tokens += costs.tokens
            useful += costs.useful_tokens
    seconds = longest + synchronise
    if log is not None:
        log.extend(everywhere(plan, "synchronise", origin + longest, origin + seconds))
        log.sort(key=attrgetter("start", "replica", "stage"))
    return Played(seconds, busy, tokens, useful, log or [])


def everywhere(plan: DeploymentPlan, kind: SpanKind, start: float, end: float) -> list[Span]:
    """The same span on every stage of every replica."""
    return [
        Span(number, stage, -1, kind, start, end)
        for number, replica in enumerate(plan.replicas)
        for stage in range(replica.config.pp)
    ]
