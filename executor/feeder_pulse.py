"""Whether whoever feeds a job from afar is still there, and what it wants."""

import time
from pathlib import Path

from executor.failures import RankFailure
from executor.watch import Watch

NAME = "feeder"
SILENCE_SECONDS = 60.0  # a feeder beats once a second
STOP, ABORT = "stop", "abort"


class FeederPulse:
    """Looks at the feeder's beat. Without such a file the launcher is the ranks' parent, and the kernel watches it."""

    def __init__(self, folder: Path, watch: Watch) -> None:
        self._path = folder / NAME
        self._watch = watch
        self._last = ""
        self._seen = time.monotonic()

    def check(self) -> None:
        """Note a wish to stop; RankFailure where the feeder gave up or fell silent."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError:
            return
        if text != self._last:
            self._last, self._seen = text, time.monotonic()
        if text.startswith(STOP):
            self._watch.stop = True
        elif text.startswith(ABORT):
            raise RankFailure(f"the feeder gave up: {text.removeprefix(ABORT).strip()}")
        elif time.monotonic() - self._seen > SILENCE_SECONDS:
            raise RankFailure(f"the feeder has been silent for {SILENCE_SECONDS:.0f} s")
