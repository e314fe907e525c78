"""When and how a running job saves: collective export, one writer, patience with a full disk."""

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from executor.assembly import Assembly
from executor.checkpoint import Draft, generations, newest, read_state
from executor.control import Control
from executor.description import Execution
from executor.manifest import Cursor
from executor.peft_format import adapter_folder
from executor.resumption import CHECKPOINTS
from executor.watch import Watch
from lobra.codec import parse
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.folders import new_folder
from lobra.plan import DeploymentPlan
from lobra.spec import Tenant

ADAPTERS = "adapters"  # finished ones, as PEFT reads them
PARKED = "parked"  # whole states of tenants that left
EVENTS = "events.jsonl"
OUTCOME = "outcome.json"


class Saver:
    """Checkpoints of one job. What communicates is called by every rank; only rank 0 touches the disk."""

    def __init__(self, folder: Path, execution: Execution, control: Control, watch: Watch) -> None:
        self._folder = folder
        self._execution = execution
        self._control = control
        self._watch = watch
        self._leads = control.rank == 0
        self._numerics = execution.numerics() if self._leads else ""
        self._last = 0  # steps at the last save
        self._at = time.monotonic()
        self._failures = 0
        self._tried = 0  # steps at the last save that failed

    def admit(self, plan: DeploymentPlan) -> None:
        """Refuse a tenant whose name cannot be that of a folder everywhere."""
        for tenant in plan.tenants:
            adapter_folder(self._folder / ADAPTERS, tenant.name)

    def saved(self, steps: int) -> None:
        """A checkpoint of so many steps exists."""
        self._last, self._at, self._failures = steps, time.monotonic(), 0

    def due(self, steps: int) -> bool:
        """Whether a checkpoint should be made now; rank 0's answer counts."""
        if steps in (self._last, self._tried) or self._execution.checkpoint_steps == 0:
            return False
        if self._failures:
            return True
        late = time.monotonic() - self._at >= self._execution.checkpoint_seconds
        return late or steps - self._last >= self._execution.checkpoint_steps

    def save(self, plan: DeploymentPlan, made: Assembly, steps: int, cursors: dict[str, Cursor]) -> bool:
        """A checkpoint of this moment, unless there is one; whether there is. After too many failures an OSError."""
        if steps == self._last:
            return True
        self._watch.step = steps - 1
        with self._watch.allowing(self._execution.setup_seconds):
            self._watch.mark("checkpoint")
            names = [tenant.name for tenant in plan.tenants]
            failure = self._write(
                self._folder / CHECKPOINTS, names, made, steps, cursors=cursors, keep=self._execution.keep
            )
            told = self._control.say(failure.encode() if self._leads else None)
        self._watch.step = -1
        if told:
            self._tried = steps
            self._failed(told.decode())
        else:
            self.saved(steps)
        return not told

    def _failed(self, failure: str) -> None:
        self._failures += 1
        if self._failures > self._execution.failed_saves:
            raise OSError(f"the checkpoint could not be written {self._failures} times: {failure}")
        if self._leads:
            sys.stderr.write(f"WARNING: the checkpoint could not be written: {failure}; training goes on\n")
        self._at = time.monotonic()

    def _write(
        self, root: Path, names: Sequence[str], made: Assembly, steps: int, *, cursors: dict[str, Cursor], keep: int
    ) -> str:
        """Collect and write these tenants; what went wrong on the disk, or nothing. Every rank must call."""
        draft: Draft | None = None
        failure = ""
        try:
            draft = Draft(root, steps, self._numerics, self._tick) if self._leads else None
        except OSError as error:
            failure = str(error)
        for name in names:
            state = made.engine.export(name)  # all ranks, whatever became of the disk
            try:
                if draft is not None and not failure:
                    draft.add(state, made.config)
            except OSError as error:
                failure = str(error)
        if draft is None:
            return failure
        try:
            if not failure:
                draft.commit(cursors, keep)
        except OSError as error:
            failure = str(error)
        if failure:
            draft.discard()
        for name, reason in draft.refused.items():
            self.log(steps, name, "not exported", reason)
        return failure

    def _tick(self, written: int) -> None:
        self._watch.mark(f"save after {written} bytes")

    def park(self, names: Sequence[str], made: Assembly, steps: int) -> None:
        """Keep tenants that leave: their adapter is finished, their state waits for their return."""
        for name in names:
            root = self._folder / PARKED / name
            failure = self._write(root, [name], made, steps, cursors={}, keep=1)
            if failure:
                raise OSError(f"tenant '{name}' leaves, but its adapter could not be written: {failure}")
            if self._leads:
                self._publish_adapter(generations(root)[0], name)

    def unpark(self, tenants: Sequence[Tenant], made: Assembly, steps: int) -> None:
        """Give tenants that return what they had when they left; others begin afresh."""
        words = json.dumps(self._parked(tenants, steps)).encode() if self._leads else None
        places = parse(self._control.say(words).decode())
        for tenant in tenants:
            if tenant.name in places:
                state = read_state(Path(places[tenant.name]), tenant.name)
                if state.tenant != tenant:
                    raise BadInput(f"tenant '{tenant.name}': it returns with other settings; give it a new name")
                made.engine.load(state)

    def _parked(self, tenants: Sequence[Tenant], steps: int) -> dict[str, str]:
        """Where returning tenants are kept; a later departure, of a time before a resumption, does not count."""
        found = {tenant.name: newest(self._folder / PARKED / tenant.name)[0] for tenant in tenants}
        return {
            name: str(place)
            for name, place in found.items()
            if place is not None and int(place.name.removeprefix("step-")) <= steps
        }

    def publish(self, plan: DeploymentPlan | None, quarantined: Sequence[str], steps: int) -> None:
        """At the end, by rank 0: adapters out of the newest checkpoint, and what became of everyone."""
        place, _ = newest(self._folder / CHECKPOINTS)
        names = [tenant.name for tenant in plan.tenants] if plan is not None else []
        if place is not None:
            for name in names:
                if name not in quarantined:
                    self._publish_adapter(place, name)
        body = {"schema": 1, "steps": steps, "quarantined": list(quarantined)}
        write_atomically(self._folder / OUTCOME, json.dumps(body, indent=2) + "\n")

    def _publish_adapter(self, checkpoint: Path, name: str) -> None:
        source, target = checkpoint / "tenants" / name / "adapter", self._folder / ADAPTERS / name
        if not source.is_dir():
            return
        shutil.rmtree(target, ignore_errors=True)
        with new_folder(target) as folder:
            for file in source.iterdir():
                shutil.copyfile(file, folder / file.name)

    def log(self, step: int, tenant: str, event: str, reason: str) -> None:
        """A line in `events.jsonl`."""
        line = json.dumps({"step": step, "tenant": tenant, "event": event, "reason": reason})
        with (self._folder / EVENTS).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
