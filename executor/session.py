"""One rank's walk through the directives: replay what a checkpoint holds, deploy, step, report, save, stop.

Every rank makes the same calls in the same order; rank 0 alone reads the feed and writes reports.
"""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from executor.assembly import Assembly, assemble
from executor.control import Control
from executor.cursors import advanced
from executor.description import Execution
from executor.engine import StepResult
from executor.failures import Kind
from executor.feed import DIRECTIVES, TRACE, Appender, Follower
from executor.feeder_pulse import FeederPulse
from executor.manifest import Cursor
from executor.observed import observed
from executor.reporting import report_of, told_by_rank
from executor.resumption import Resumption, check_replay, load_states
from executor.saved import counting
from executor.saving import Saver
from executor.watch import Watch
from lobra import codec
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.trace import Span

_LOOK_SECONDS = 0.002  # between two looks at the feed
_ROUND_SECONDS = 0.5  # the longest that rank 0 keeps the others without a word


@dataclass(slots=True)
class _Times:
    """Readings of rank 0 in seconds since the run began."""

    begun: float = 0.0  # of the step that comes next
    waited: float = 0.0  # for its plan


class Session:
    """Directives in, reports out."""

    def __init__(
        self,
        folder: Path,
        execution: Execution,
        *,
        control: Control,
        watch: Watch,
        device: torch.device,
        resumption: Resumption,
        origin: float,
    ) -> None:
        self._execution = execution
        self._control = control
        self._watch = watch
        self._device = device
        self._resumption = resumption
        self._origin = origin
        self._leads = control.rank == 0
        self._feed = Follower(folder / DIRECTIVES)
        self._pulse = FeederPulse(folder, watch)
        self._trace = Appender(folder / TRACE, durable=True, fresh=False) if self._leads else None
        self._saver = Saver(folder, execution, control, watch)
        self._assembly: Assembly | None = None
        self._plan: DeploymentPlan | None = None
        self._played = 0  # step plans, replayed ones included
        self._cursors: dict[str, Cursor] = {}
        self._before: tuple[Span, ...] = ()  # spans of deployments since the last report
        self._times = _Times()

    def run(self) -> Kind:
        """Play until the feed ends or somebody asks to stop."""
        while True:
            words = self._listen()
            verb, _, line = words.partition(b" ")
            if verb == b"do":
                self._play(line)
            elif verb == b"save":
                self._save()
            elif verb == b"stop":
                self._save()
                return "preempted"
            elif verb == b"end":
                self._finish()
                return "done"

    def _listen(self) -> bytes:
        """What all ranks do next; planning that was not hidden counts as waiting."""
        self._watch.mark("waiting for a directive")
        stop = self._control.anyone(self._watch.stop)
        return self._control.say(self._word(stop) if self._leads else None)

    def _word(self, stop: bool) -> bytes:
        if stop:
            return b"stop"
        if self._saver.due(self._played) and not self._replaying:
            return b"save"
        line = self._feed.line()
        if line is None and not self._feed.ended:
            begun = time.monotonic()
            line = self._await(begun + _ROUND_SECONDS)
            self._times.waited += 0.0 if self._replaying else time.monotonic() - begun
        if line is not None:
            return b"do " + line
        return b"end" if self._feed.ended else b"wait"

    def _await(self, patience: float) -> bytes | None:
        """A line that comes in time; what was not there at the first look counts as planning that was not hidden."""
        while time.monotonic() < patience and not self._watch.stop and not self._feed.ended:
            time.sleep(_LOOK_SECONDS)
            line = self._feed.line()
            if line is not None:
                return line
        self._pulse.check()
        return None

    @property
    def _replaying(self) -> bool:
        return self._played < self._resumption.steps

    def _now(self) -> float:
        return time.perf_counter() - self._origin

    def _play(self, line: bytes) -> None:
        directive = self._feed.decoded(line) if self._leads else codec.decode(line.decode())
        if isinstance(directive, DeploymentPlan):
            if self._replaying:
                self._plan = directive
            else:
                self._deploy(directive)
        elif not isinstance(directive, StepPlan):
            raise BadInput(f"{DIRECTIVES}: it holds a {type(directive).__name__}; only plans can be played")
        elif self._plan is None:
            raise BadInput(f"step {directive.step}: no plan is deployed yet; begin the stream with a deployment plan")
        elif self._replaying:
            self._replay(self._plan, directive)
        else:
            self._step(self._plan, directive)

    def _replay(self, plan: DeploymentPlan, step: StepPlan) -> None:
        """A step that the checkpoint holds: only its data is counted."""
        self._played += 1
        self._cursors = advanced(self._cursors, plan.tenants, step)
        if not self._replaying:
            check_replay(self._resumption, self._cursors)
            engine = self._deploy(plan).engine
            load_states(self._resumption, plan, engine)
            self._saver.saved(self._played)
            self._times = _Times(self._now())

    def _deploy(self, plan: DeploymentPlan) -> Assembly:
        first = self._assembly is None
        with self._watch.allowing(self._execution.setup_seconds):
            self._watch.mark("deployment")
            made = self._assembly or assemble(self._execution, plan, self._device, self._origin, observed(self._watch))
            self._assembly = made
            made.admit(plan)
            self._saver.admit(plan)
            old = {tenant.name for tenant in self._plan.tenants} if self._plan is not None and not first else set()
            self._saver.park(sorted(old - {tenant.name for tenant in plan.tenants}), made, self._played)
            spans = made.engine.deploy(plan)
            if not first:
                self._before += spans
                self._saver.unpark([tenant for tenant in plan.tenants if tenant.name not in old], made, self._played)
        self._plan = plan
        if first:
            self._times = _Times(self._now())
        return made

    def _step(self, plan: DeploymentPlan, step: StepPlan) -> None:
        assert self._assembly is not None
        self._watch.step = self._played
        self._watch.mark("step")
        engine, counted = self._assembly.engine, step.step in self._execution.counted
        with counting(engine) if counted else nullcontext() as kept:
            result = engine.run_step(step)
        self._played += 1
        self._cursors = advanced(self._cursors, plan.tenants, step)
        self._watch.mark("report")
        told = self._control.collect_json(
            told_by_rank(result, self._before, self._peak() if kept is None else kept.peak)
        )
        ended = self._now()
        if self._trace is not None:
            self._trace.append(
                report_of(plan, step, result, told, begun=self._times.begun, waited=self._times.waited, ended=ended)
            )
            self._tell(plan, result)
        self._watch.step = -1
        self._before, self._times = (), _Times(ended)

    def _peak(self) -> int | None:
        if self._device.type != "cuda":
            return None
        peak = torch.cuda.max_memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        return peak

    def _tell(self, plan: DeploymentPlan, result: StepResult) -> None:
        for tenant in result.skipped:
            gone = tenant in result.quarantined
            self._saver.log(result.step, plan.tenants[tenant].name, "quarantined" if gone else "skipped", "not finite")

    def _save(self) -> bool:
        """Whether there is a checkpoint of this moment now, or nothing to save yet."""
        if self._assembly is None or self._plan is None or self._replaying:
            return True
        saved = self._saver.save(self._plan, self._assembly, self._played, self._cursors)
        self._times = _Times(self._now())
        return saved

    def _finish(self) -> None:
        if self._replaying:
            raise BadInput(
                f"steps: {self._played} are asked for, but this run has already trained {self._resumption.steps}; "
                "ask for more to go on, or choose another run_dir"
            )
        if not self._save():
            raise OSError("the last checkpoint could not be written, so the run is not over; start it again to go on")
        if self._trace is not None:
            self._saver.publish(self._plan, self._quarantined(), self._played)
            self._trace.finish()

    def _quarantined(self) -> list[str]:
        if self._assembly is None:
            return []
        return [each.tenant.name for each in self._assembly.engine.adapters if each.quarantined]
