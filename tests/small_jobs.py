"""Small jobs for tests of the launcher: a tiny random model, a few tenants, plans of any layout, fixed data."""

import hashlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from executor.description import Execution, Fault, knobs
from executor.failures import Preempted, RankFailure
from executor.launch import Torchrun
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import TARGET_MODULES, ClusterSpec, GpuSpec, Link, ModelSpec, SequenceRef, Tenant

LINK = Link(10, 1)
MODEL = ModelSpec("tiny", layers=4, hidden=32, intermediate=64, heads=4, kv_heads=2, vocabulary=64)
A = Tenant("a", batch_size=2, context_limit=64, rank=4, learning_rate=1e-2, target_modules=("q_proj", "v_proj"))
B = Tenant("b", batch_size=2, context_limit=64, rank=8, learning_rate=1e-2, dropout=0.1, target_modules=TARGET_MODULES)
C = Tenant("c", batch_size=2, context_limit=64, rank=2, learning_rate=1e-2)
PAIR = ((1, 1), (1, 1))  # two replicas of one rank


def plan(*shapes: tuple[int, int], tenants: tuple[Tenant, ...] = (A, B)) -> DeploymentPlan:
    """Replicas (tp, pp) one after another, on a cluster that they fill."""
    placed, start = [], 0
    for tp, pp in shapes:
        placed.append(Replica(ReplicaConfig(tp, pp), tuple(range(start, start + tp * pp)), 256))
        start += tp * pp
    cluster = ClusterSpec("cpu", 1, start, GpuSpec("cpu", 16, 1, 10), LINK, LINK)
    return DeploymentPlan(MODEL, cluster, tenants, tuple(placed))


def step(number: int, deployed: DeploymentPlan, shift: int = 0) -> StepPlan:
    """Two sequences of every tenant, one micro-batch a tenant; data follow from the number alone."""
    work: list[list[MicroBatch]] = [[] for _ in deployed.replicas]
    for tenant, who in enumerate(deployed.tenants):
        short = 9 + "abc".index(who.name)  # its own, wherever it stands among the tenants
        rows = ((SequenceRef(tenant, 2 * number, short, 5),), (SequenceRef(tenant, 2 * number + 1, 12, 12),))
        work[(tenant + number + shift) % len(work)].append(MicroBatch(rows, 16))
    return StepPlan(number, tuple(map(tuple, work)))


def directives(
    steps: int, *shapes: tuple[int, int], tenants: tuple[Tenant, ...] = (A, B), shift: int = 0
) -> Iterator[DeploymentPlan | StepPlan]:
    """One deployment and its steps."""
    deployed = plan(*(shapes or PAIR), tenants=tenants)
    yield deployed
    for number in range(steps):
        yield step(number, deployed, shift)


CROWDED = 20  # seconds: an end that is not at once; `benchmarks/faults.py` measures the promise itself, 5 seconds


def execution(*faults: Fault, ranks: int = 2, **changed: object) -> Execution:
    """Float64 on the CPU, a checkpoint every two steps, six seconds until a rank counts as hung."""
    given: dict[str, object] = {"checkpoint_steps": 2, "deadline_seconds": 6.0, **changed}
    return Execution(ranks=ranks, device="cpu", settings=knobs({"dtype": "float64"}), faults=faults, **given)  # type: ignore[arg-type]


def played(folder: Path, *faults: Fault, steps: int = 4) -> tuple[int, ...]:
    """Play a job of two ranks to its end: the steps it reported."""
    job = Torchrun(folder, execution(*faults))
    return tuple(report.step for report in job.play(directives(steps)))


def adapters(folder: Path) -> dict[str, str]:
    """sha256 of every finished adapter's weights."""
    found = sorted((folder / "adapters").iterdir())
    return {path.name: hashlib.sha256((path / "adapter_model.safetensors").read_bytes()).hexdigest() for path in found}


def processes_of(folder: Path) -> list[int]:
    """Living processes whose command line names the job's folder."""
    return [
        int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _belongs(int(path.name), folder)
    ]


def _belongs(pid: int, folder: Path) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return str(folder).encode() in command and state != "Z" and pid != os.getpid()


def launch(folder: Path) -> int:
    """Play many steps as a program of its own: the exit code that the design gives its end."""
    try:
        for report in Torchrun(folder, execution(deadline_seconds=20.0)).play(directives(400)):
            sys.stdout.write(f"{report.step}\n")
            sys.stdout.flush()
    except Preempted:
        return 5
    except RankFailure:
        return 6
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.exit(launch(Path(sys.argv[1])))
