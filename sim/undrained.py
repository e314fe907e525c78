"""An undrained stretch: step plans that follow one another through pipelines nobody flushes.

A step plan is over when its last slot has left every pipeline, which is known as soon as the slots behind it have
begun. Its tenants update when their gradients are summed; meanwhile others' work goes on, and only their own next
micro-batch waits for that. It is reported as soon as all that every stage did until then is known, which a replica far
ahead of the others delays. A report's seconds are those since the report before it, its busy time what was computed in
them, its spans what ended in them; micro-batches are numbered by their slots.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from lobra.plan import DeploymentPlan, MicroBatch, StepPlan
from lobra.protocols import CostModel
from lobra.trace import Span, StepReport
from lobra.undrained import Stretch, slots
from sim.disturbance import Noise
from sim.lane import Lane, Slot, empty_slot
from sim.prices import Prices, duration, price
from sim.step import everywhere


@dataclass(frozen=True, slots=True)
class _Begun:
    """A step plan whose slots have begun."""

    step: StepPlan
    last: int  # its last slot
    tokens: int
    useful_tokens: int
    wait: float


@dataclass(frozen=True, slots=True)
class _Over:
    """A step plan that is over and not reported yet."""

    begun: _Begun
    worked: float  # when its last slot had left all pipelines
    since: float  # when the one before it was over
    until: float


class Undrained:
    """Plays one stretch; all times are seconds since it began."""

    def __init__(
        self,
        plan: DeploymentPlan,
        cost: CostModel,
        noise: Noise | None,
        clock: float,
        *,
        spans: bool,
        late: tuple[float, float] = (0.0, 0.0),
        before: Sequence[Span] = (),
    ) -> None:
        """`late`: seconds of deployment and of waiting between `clock` and the stretch; `before`: their spans."""
        self._plan, self._cost, self._noise, self._spans = plan, cost, noise, spans
        self._lanes = [Lane(number, replica.config.pp) for number, replica in enumerate(plan.replicas)]
        self._depth = max(replica.config.pp for replica in plan.replicas)
        self._stretch = Stretch(plan)
        self._origin, self._wait, self._before = clock + sum(late), late[1], before
        self._begun: deque[_Begun] = deque()
        self._over: deque[_Over] = deque()
        self._updated: dict[int, float] = {}  # tenant -> when its latest update is done
        self._seconds: dict[tuple[int, ...], float] = {}  # of the update of these tenants
        self._slot = 0
        self._step = -1
        self._played = [0] * len(plan.replicas)  # micro-batches of the step in progress
        self._ending = False
        self._worked = [0.0] * len(plan.replicas)  # seconds of the operations of each that ended and were told
        self._busy = 0.0  # GPU seconds of these and of running ones, as reported so far
        self.planned = 0.0  # since when the next step is planned
        self.over = -sum(late)  # when the last step plan that is over ended

    def add(self, step: StepPlan, planning: float | None) -> Iterator[StepReport]:
        """Begin its slots; reports of step plans that are over by then. planning: seconds, if another one began."""
        self._stretch.admit(step)
        yield from self._reports()
        release = 0.0 if planning is None else self.planned + planning
        if step.step != self._step:
            self._step, self._played = step.step, [0] * len(self._lanes)
        prices = [
            price(self._plan, step, number, self._cost, self._noise, before=self._played[number])
            for number in range(len(self._lanes))
        ]
        natural = min(
            max(lane.ready, self._gate(work[0]) if work else 0.0)
            for lane, work in zip(self._lanes, step.work, strict=True)
        )
        if planning is not None:  # the next one is planned while this one plays
            self.planned = max(natural, release)
        for turn in range(slots(step)):
            for number, (lane, work) in enumerate(zip(self._lanes, step.work, strict=True)):
                if turn < len(work):
                    lane.play(_slot(prices[number], turn), max(release, self._gate(work[turn])))
                    self._played[number] += 1
                else:  # before a flush there is nothing to keep a place for
                    lane.play(None if step.drain else empty_slot(lane.stages), release)
            self._slot += 1
            if turn + 1 < slots(step):
                yield from self._reports()
        self._begun.append(
            _Begun(
                step,
                self._slot - 1,
                sum(each.tokens for each in prices),
                sum(each.useful_tokens for each in prices),
                self._wait + max(0.0, release - natural),
            )
        )
        self._wait = 0.0

    def end(self) -> Iterator[StepReport]:
        """Flush the pipelines; the reports of what was still in them."""
        self._ending = True
        yield from self._reports()
        for _ in range(self._depth - 1):
            for lane in self._lanes:
                lane.play(None)
            self._slot += 1
            yield from self._reports()
        yield from (self._report(self._over.popleft()) for _ in range(len(self._over)))

    def _gate(self, microbatch: MicroBatch) -> float:
        """When all its tenants are updated."""
        return max(self._updated.get(sequence.tenant, 0.0) for row in microbatch.rows for sequence in row)

    def _reports(self) -> Iterator[StepReport]:
        """Of the step plans that are over, as far as everything until then is known."""
        while self._begun and self._begun[0].last + self._depth <= self._slot:
            self._leave(self._begun.popleft())
        while self._over and min(lane.known for lane in self._lanes) >= self._over[0].until:
            yield self._report(self._over.popleft())

    def _leave(self, begun: _Begun) -> None:
        """All its slots have left all pipelines; its tenants are updated."""
        worked = max(lane.left(begun.last) for lane in self._lanes)
        self._update(begun.step, worked)
        over = max(self.over, worked)
        if self._ending and not self._begun and self._updated:
            over = max(over, *self._updated.values())
        self._over.append(_Over(begun, worked, self.over, over))
        self.over = over

    def _update(self, step: StepPlan, worked: float) -> None:
        tenants = tuple(range(len(self._plan.tenants))) if step.updates is None else tuple(sorted(set(step.updates)))
        if not tenants:
            return
        if tenants not in self._seconds:
            some = replace(self._plan, tenants=tuple(self._plan.tenants[tenant] for tenant in tenants))
            seconds = self._cost.synchronise_seconds(some)
            self._seconds[tenants] = duration(seconds, "cost model: the synchronisation")
        for tenant in tenants:
            self._updated[tenant] = worked + self._seconds[tenants]

    def _report(self, over: _Over) -> StepReport:
        begun = over.begun
        ended, total = self._ended(over.until)
        busy, self._busy = total - self._busy, total
        spans: list[Span] = []
        if self._spans:
            origin = self._origin
            spans = [span._replace(start=origin + span.start, end=origin + span.end) for span in ended]
            spans, self._before = [*self._before, *spans], ()
            if self._ending and not self._begun and not self._over and over.until > over.worked:
                spans += everywhere(self._plan, "synchronise", origin + over.worked, origin + over.until)
            spans.sort(key=attrgetter("start", "replica", "stage"))
        gpus, seconds = self._plan.cluster.gpus, over.until - over.since
        return StepReport(
            begun.step.step, seconds, gpus, busy, begun.tokens, begun.useful_tokens, tuple(spans), begun.wait
        )

    def _ended(self, over: float) -> tuple[list[Span], float]:
        """Spans that ended by then and were not told yet, and the busy GPU seconds of the stretch until then."""
        ended, busy = list[Span](), 0.0
        for number, (lane, replica) in enumerate(zip(self._lanes, self._plan.replicas, strict=True)):
            running: list[Span] = []
            part = 0.0
            for span in lane.spans:
                (ended if span.end <= over else running).append(span)
                if span.kind != "transfer":
                    if span.end <= over:
                        self._worked[number] += span.end - span.start
                    else:
                        part += max(0.0, over - span.start)
            lane.spans = running
            busy += (self._worked[number] + part) * replica.config.tp
        return ended, busy


def _slot(prices: Prices, number: int) -> Slot:
    return Slot(
        tuple(stage[number] for stage in prices.forward),
        tuple(stage[number] for stage in prices.backward),
        prices.transfer[number] if prices.transfer else 0.0,
    )
