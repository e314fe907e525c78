"""Works for points in tests: importable, so that a process of its own finds them too."""

import os
import signal

import numpy as np

from lobra.errors import Infeasible


def drawn(job, folder, options):
    """A number that follows from the seed; leaves a line for every time it was played."""
    with (folder.parent.parent.parent / f"played_{options['name']}").open("a") as file:
        file.write("x")
    value = float(np.random.default_rng(np.random.SeedSequence(job.config.seed)).random())
    return {"value": value * options.get("factor", 1.0), "wall": {"own_seconds": 0.5}}


def impossible(job, folder, options):
    raise Infeasible("nothing fits; take less")


def not_a_number(job, folder, options):
    return {"value": float("nan")}


def killed_once(job, folder, options):
    """Dies without a word the first time."""
    mark = folder.parent.parent.parent / "was_killed"
    (folder / "half").write_text("half of a result")
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": 1.0, "left": sorted(path.name for path in folder.iterdir())}


def interrupted_once(job, folder, options):
    """Is stopped the first time."""
    mark = folder.parent.parent.parent / "was_interrupted"
    if not mark.exists():
        mark.write_text("")
        raise KeyboardInterrupt
    return {"value": 2.0}
