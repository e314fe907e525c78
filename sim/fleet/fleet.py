"""The fleet: tenants come, queue, are admitted, train in lock step and leave; every change asks keep or re-deploy.

All tenants that train take part in every step, so a step serves each of them and the slowest part of the plan sets the
pace (the price of lock step). Tenants join and leave between steps. While the fleet plans or moves nobody trains, and
who arrives meanwhile waits. An arrival that is not admitted changes nothing but the queue.
"""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

import simpy

from lobra.errors import BadInput
from lobra.spec import positive
from sim.fleet.asking import Admit, Decide, StepTimes
from sim.fleet.losses import Fragile, Lost, Pace, kept, restarted
from sim.fleet.nouns import Active, Cause, History, Interval, Job, Loss, P, Phase, Record, Split, StepTime, Verdict
from sim.fleet.stretch import drawn_seconds, steps_until

Playing = Generator[simpy.Event, None, None]


@dataclass(frozen=True, slots=True)
class Fleet(Generic[P]):
    """A cluster and its rules; `play` may be called as often as wanted."""

    gpus: int
    step_times: StepTimes[P]
    admit: Admit[P]
    decide: Decide[P]
    period_seconds: float | None = None  # a decision without a change every so often; None: never
    until_seconds: float = math.inf  # the fleet ends with the step under way then
    seed: int = 0
    fragile: Fragile | None = None  # nodes are lost and checkpoints are written; None: nothing ever fails

    def __post_init__(self) -> None:
        positive("fleet", gpus=self.gpus)
        if self.period_seconds is not None:
            positive("fleet", period_seconds=self.period_seconds)
        if not self.until_seconds > 0:
            raise BadInput(f"fleet: until_seconds is {self.until_seconds}; it must be above 0")
        if self.seed < 0:
            raise BadInput(f"fleet: seed is {self.seed}; it must not be negative")

    def play(self, jobs: Sequence[Job]) -> History[P]:
        """From time 0 until all have left, or until nobody trains, waits in vain, or the time is over."""
        names = [job.name for job in jobs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BadInput(f"fleet: the job '{twice}' stands twice; names must differ")
        environment = simpy.Environment()
        life = _Life(self, environment, tuple(sorted(jobs, key=lambda job: job.at_seconds)), environment.event())
        environment.process(life.arrive())
        environment.run(until=environment.process(life.serve()))
        records = tuple(life.records[job.name] for job in life.jobs)
        return History(self.gpus, records, tuple(life.intervals), tuple(life.verdicts), tuple(life.losses))


@dataclass(slots=True)
class _Life(Generic[P]):
    """One play in the making."""

    fleet: Fleet[P]
    environment: simpy.Environment
    jobs: tuple[Job, ...]
    arrived: simpy.Event  # the next arrival, or none any more
    to_come: int = 0
    news: bool = False  # somebody came since the queue was looked at
    queue: list[Job] = field(default_factory=list)
    active: dict[str, Active] = field(default_factory=dict)
    plan: P | None = None
    decided: tuple[str, ...] = ()  # for whom the plan was decided
    timer: float = math.inf
    stretches: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    intervals: list[Interval[P]] = field(default_factory=list)
    verdicts: list[tuple[float, Verdict[P]]] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    coming: Iterator[Lost] = field(default_factory=lambda: iter(()))
    next_loss: Lost | None = None

    def __post_init__(self) -> None:
        if self.fleet.fragile is not None:
            self.coming = self.fleet.fragile.losses.coming()
            self.next_loss = next(self.coming)
        self.to_come = len(self.jobs)
        self.records = {job.name: Record(job) for job in self.jobs}

    def arrive(self) -> Playing:
        """Put every job into the queue at its time; those of one moment together."""
        for number, job in enumerate(self.jobs):
            if job.at_seconds > self.environment.now:
                yield self.environment.timeout(job.at_seconds - self.environment.now)
            self.queue.append(job)
            self.to_come -= 1
            self.news = True
            last = number + 1 == len(self.jobs)
            if last or self.jobs[number + 1].at_seconds > self.environment.now:
                ring, self.arrived = self.arrived, self.environment.event()
                ring.succeed()

    def serve(self) -> Playing:
        """Admit, decide, train until something changes, again and again."""
        while self.environment.now < self.fleet.until_seconds:
            self._admit()
            if self.active:
                yield from self._decide()
                yield from self._train()
            elif self.to_come:
                yield from self._rest()
            else:
                return

    def _admit(self) -> None:
        now, self.news = self.environment.now, False
        if not self.queue:
            return
        chosen = set(self.fleet.admit(now, tuple(self.queue), tuple(self.active.values()), self.plan))
        for job in self.queue:
            if job.name in chosen:
                self.active[job.name] = Active(job, now, 0)
        self.queue = [job for job in self.queue if job.name not in chosen]

    def _decide(self) -> Playing:
        """Ask where the tenants changed or the period is over; wait as long as it takes."""
        jobs, now = tuple(sorted(self.active)), self.environment.now
        due = now >= self.timer
        if jobs == self.decided and not due:
            return
        cause: Cause = "change" if jobs != self.decided else "timer"
        verdict = self.fleet.decide(now, self.plan, jobs, cause)
        self.verdicts.append((now, verdict))
        self.decided = jobs
        if self.fleet.period_seconds is not None and (due or self.timer == math.inf):
            self.timer = now + self.fleet.period_seconds
        yield from self._spend("planning", verdict.planning_seconds, jobs)
        yield from self._spend("redeployment", verdict.moving_seconds, jobs)
        self.plan = verdict.plan

    def _train(self) -> Playing:
        """Steps until the first leaves, somebody arrives, the period or the time is over."""
        fleet, environment = self.fleet, self.environment
        assert self.plan is not None  # decided just before
        start, time = environment.now, fleet.step_times(self.decided, self.plan)
        left = min(active.job.steps - active.steps for active in self.active.values())
        step_seconds = drawn_seconds(time, left, fleet.seed, self.stretches) / left
        self.stretches += 1
        most = max(0.0, min(self.timer, fleet.until_seconds) - start)
        if fleet.fragile is not None:
            yield from self._train_fragile(fleet.fragile, time, step_seconds, left, most)
            return
        stop = min(left * step_seconds, most)
        if not self.news:
            yield environment.any_of([environment.timeout(stop), self.arrived])
        steps = steps_until(environment.now - start, step_seconds, left)
        end = start + steps * step_seconds
        if end > environment.now:
            yield environment.timeout(end - environment.now)
        seconds = environment.now - start
        split = time.split.scaled_to(seconds * fleet.gpus)
        self.intervals.append(Interval(start, seconds, "train", self.decided, self.plan, steps, split))
        self._advance(steps, start)

    def _train_fragile(self, fragile: Fragile, time: StepTime, step_seconds: float, left: int, most: float) -> Playing:
        """The same up to the next loss of a node, with checkpoints between steps and one at the end."""
        environment, start, pace = self.environment, self.environment.now, fragile.pace(step_seconds)
        lost = self._loss_after(start)
        if not self.news:
            wake = min(pace.seconds(left), most, lost.at_seconds - start)
            yield environment.any_of([environment.timeout(wake), self.arrived])
        steps = min(left, max(1, pace.begun(environment.now - start)))
        end = start + pace.seconds(steps)
        if end <= lost.at_seconds:
            yield environment.timeout(max(0.0, end - environment.now))
            self._trained(pace, time, steps, start, environment.now)
            return
        steps = min(left, kept(fragile, pace, lost.at_seconds - start))
        done = min(left, pace.done(lost.at_seconds - start))
        up, self.next_loss = restarted(fragile, self.coming, lost)
        yield environment.timeout(up - environment.now)
        saved = start + steps * step_seconds + steps // pace.cycle_steps * pace.checkpoint_seconds
        wasted = max(0.0, up - saved) * self.fleet.gpus
        self.losses.append(Loss(lost.at_seconds, lost.node, self.decided, max(0, done - steps), wasted))
        jobs, plan = self.decided, self.plan
        self._trained(pace, time, steps, start, saved)
        self.intervals.append(Interval(saved, max(0.0, up - saved), "failed", jobs, plan, 0, Split(failed=wasted)))

    def _trained(self, pace: Pace, time: StepTime, steps: int, start: float, end: float) -> None:
        """Steps that are done and saved, and the checkpoints among them."""
        gpus = self.fleet.gpus
        if end > start:
            seconds = steps * pace.step_seconds
            split = time.split.scaled_to(seconds * gpus).plus(Split(failed=(end - start - seconds) * gpus))
            self.intervals.append(Interval(start, end - start, "train", self.decided, self.plan, steps, split))
        self._advance(steps, start)

    def _loss_after(self, now: float) -> Lost:
        """The next one that somebody feels."""
        assert self.next_loss is not None  # the fleet is fragile
        while self.next_loss.at_seconds <= now:
            self.next_loss = next(self.coming)
        return self.next_loss

    def _advance(self, steps: int, start: float) -> None:
        """Count the steps; who has used its budget leaves."""
        for name, active in list(self.active.items()):
            done = active.steps + steps
            record = self.records[name]
            began = start if record.start_seconds is None else record.start_seconds
            finish = self.environment.now if done >= active.job.steps else None
            self.records[name] = Record(active.job, began, finish, done)
            if finish is None:
                self.active[name] = replace(active, steps=done)
            else:
                del self.active[name]

    def _rest(self) -> Playing:
        """Nobody trains: wait for an arrival."""
        start, fleet = self.environment.now, self.fleet
        waits = [self.arrived]
        if fleet.until_seconds < math.inf:
            waits.append(self.environment.timeout(fleet.until_seconds - start))
        yield self.environment.any_of(waits)
        self.decided = ()
        seconds = self.environment.now - start
        if seconds > 0:
            idle = Split(idle=seconds * fleet.gpus)
            self.intervals.append(Interval(start, seconds, "idle", (), self.plan, 0, idle))

    def _spend(self, phase: Phase, seconds: float, jobs: tuple[str, ...]) -> Playing:
        if seconds > 0:
            start = self.environment.now
            yield self.environment.timeout(seconds)
            lost = seconds * self.fleet.gpus
            split = Split(planning=lost) if phase == "planning" else Split(redeployment=lost)
            self.intervals.append(Interval(start, seconds, phase, jobs, self.plan, 0, split))
