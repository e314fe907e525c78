"""Directives made one step ahead: while a step plays, the next one is planned in a thread of its own."""

import queue
import threading
from collections.abc import Iterable, Iterator

from lobra.plan import DeploymentPlan, StepPlan

Directive = DeploymentPlan | StepPlan


class Ahead:
    """Pulls directives up to and including one step plan for each permission given."""

    def __init__(self, directives: Iterable[Directive]) -> None:
        self._directives: Iterator[Directive] = iter(directives)
        self._made: queue.SimpleQueue[Directive | BaseException | None] = queue.SimpleQueue()
        self._permits = threading.Semaphore(0)
        self.ended = False
        self._closed = False

    def prelude(self) -> list[Directive]:
        """What comes up to the first step plan; pulled here and now, so that what is wrong is known before all else."""
        begun = list(_one_step(self._directives))
        if not begun or not isinstance(begun[-1], StepPlan):
            self.ended = True
        return begun

    def start(self) -> None:
        """From now on plan in the background."""
        threading.Thread(target=self._work, name="planning ahead", daemon=True).start()

    def permit(self) -> None:
        """One more step plan may be made."""
        self._permits.release()

    def close(self) -> None:
        """No further step plan is wanted; the one in the making is left to itself."""
        self._closed = True
        self.permit()

    def take(self) -> Directive | None:
        """The next directive if it is ready; what its maker raised is raised here."""
        try:
            made = self._made.get_nowait()
        except queue.Empty:
            return None
        if isinstance(made, BaseException):
            raise made
        self.ended |= made is None
        return made

    def _work(self) -> None:
        try:
            while True:
                self._permits.acquire()
                if self._closed:
                    return
                last = None
                for last in _one_step(self._directives):
                    self._made.put(last)
                if not isinstance(last, StepPlan):
                    self._made.put(None)
                    return
        except BaseException as error:  # noqa: BLE001 -- it is raised where the directives are awaited
            self._made.put(error)


def _one_step(directives: Iterator[Directive]) -> Iterator[Directive]:
    for directive in directives:
        yield directive
        if isinstance(directive, StepPlan):
            return
