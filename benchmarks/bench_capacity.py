"""How long questions about capacity take: python benchmarks/bench_capacity.py [NAME ...]; exit 1 where a bar is missed.

Every question runs in a process of its own, as a person would ask it, and is timed by the wall clock from start to end.
The machine's load is shown beside it: on a busy machine the seconds of the processor say more.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parents[1]


class Bar(NamedTuple):
    """A question, and how many seconds it may take."""

    name: str
    limit: float
    arguments: tuple[str, ...]


BARS = (
    Bar("run", 10, ("run", "experiment=team")),
    Bar("frontier", 10, ("frontier", "experiment=team")),
    Bar("compare", 60, ("compare", "experiment=team")),
    Bar("min-gpus", 60, ("min-gpus", "experiment=team", "slo.finish_p95=8h")),
    Bar("add-tenant", 60, ("add-tenant", "experiment=team", "tenant=meetingbank", "newcomer.at=1h")),
    Bar("sensitivity", 60, ("sensitivity", "experiment=team", "slo.finish_p95=8h")),
    Bar(
        "a week of 100 tenants on 64 GPUs",
        60,
        (
            "run",
            "experiment=team",
            "cluster.nodes=8",
            "arrivals.kind=poisson",
            "arrivals.per_hour=0.6",
            "arrivals.horizon=7d",
            "churn.rule=hysteresis",
            "playing.batches=2",
            "playing.grain=6",
            "seeds=1",
        ),
    ),
)


def main(wanted: list[str]) -> int:
    """Time the questions; 1 where one takes too long or fails."""
    missed = 0
    print(f"{'question':36}{'seconds':>9}{'processor':>11}{'bar':>6}  load {os.getloadavg()[0]:.1f}")
    for bar in BARS:
        if wanted and bar.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            wall, processor, code = timed(bar, Path(folder))
        verdict = "" if wall <= bar.limit and code in (0, 4) else "  MISSED" if code in (0, 4) else f"  FAILED ({code})"
        missed += bool(verdict)
        print(f"{bar.name:36}{wall:9.1f}{processor:11.1f}{bar.limit:6.0f}{verdict}", flush=True)
    return int(missed > 0)


def timed(bar: Bar, folder: Path) -> tuple[float, float, int]:
    """Seconds by the wall clock, of the processor, and the exit code."""
    command = [sys.executable, "-m", "experiments.cli", "whatif", *bar.arguments, f"run_dir={folder / 'OUT'}"]
    environment = os.environ | {"PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(  # noqa: S603 -- our own command line
        command, cwd=folder, env=environment, capture_output=True, check=False
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
