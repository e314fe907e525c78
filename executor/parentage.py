"""Processes that do not outlive who started them."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_HEARTBEAT_SECONDS = 0.5


def killed_with_parent() -> Callable[[], None]:
    """A function that makes the kernel kill this process as soon as its parent is gone; where prctl exists."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return lambda: None
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) and None


def end_with_parent(parent: int) -> None:
    """End this process when `parent` is not its parent any more; also where there is no prctl, or it came too late."""
    killed_with_parent()()
    if os.getppid() != parent:
        os._exit(6)

    def beat() -> None:
        while os.getppid() == parent:
            time.sleep(_HEARTBEAT_SECONDS)
        os._exit(6)

    threading.Thread(target=beat, name="parent heartbeat", daemon=True).start()
