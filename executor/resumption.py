"""Going on from the newest sound checkpoint: found on disk by rank 0, agreed by all."""

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from executor import manifest as manifests
from executor.checkpoint import newest, read_state, set_aside
from executor.engine import Engine
from executor.feed import TRACE, Follower
from executor.manifest import Cursor
from lobra import codec
from lobra.codec import parse
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.plan import DeploymentPlan
from lobra.trace import StepReport

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where a run goes on; steps 0: at its beginning."""

    steps: int = 0
    seconds: float = 0.0  # of the steps whose reports are kept
    folder: Path | None = None
    tenants: tuple[str, ...] = ()
    cursors: dict[str, Cursor] = field(default_factory=dict)

    def encode(self) -> bytes:
        """As JSON, for the other ranks."""
        return json.dumps({**asdict(self), "folder": str(self.folder or "")}).encode()

    @classmethod
    def decode(cls, words: bytes) -> "Resumption":
        """What another rank encoded."""
        body = parse(words.decode())
        cursors = {name: Cursor(**cursor) for name, cursor in body["cursors"].items()}
        folder = Path(body["folder"]) if body["folder"] else None
        return cls(body["steps"], body["seconds"], folder, tuple(body["tenants"]), cursors)


def find(folder: Path, numerics: str) -> Resumption:
    """The newest checkpoint that verifies; the trace is cut to its steps. To be called by rank 0 alone."""
    found, complaints = newest(folder / CHECKPOINTS)
    for damaged, complaint in complaints:
        sys.stderr.write(f"WARNING: a checkpoint is passed over: {complaint}\n")
        set_aside(damaged)
    if found is None:
        write_atomically(folder / TRACE, "")
        return Resumption()
    manifest = manifests.verify(found)
    if manifest.numerics != numerics:
        raise BadInput(
            f"{found}: it was made with other settings, model or data; go on with the same, or choose another run_dir"
        )
    return Resumption(manifest.steps, _cut_trace(folder, manifest.steps), found, manifest.tenants, manifest.cursors)


def _cut_trace(folder: Path, steps: int) -> float:
    """Keep the reports of the first steps; their seconds."""
    kept: list[StepReport] = []
    seconds = 0.0
    with Follower(folder / TRACE) as trace:
        while len(kept) < steps:
            report = trace.noun()
            if report is None:
                raise BadInput(
                    f"{folder / TRACE}: it has {len(kept)} reports, but the newest checkpoint holds {steps} steps"
                )
            kept.append(report)
            seconds += report.seconds
    write_atomically(folder / TRACE, "".join(codec.encode(report) + "\n" for report in kept))
    return seconds


def check_replay(resumption: Resumption, cursors: dict[str, Cursor]) -> None:
    """Refuse to go on with other data than the checkpoint was trained on."""
    for name in sorted(resumption.cursors.keys() | cursors.keys()):
        saved, now = resumption.cursors.get(name, Cursor()), cursors.get(name, Cursor())
        if saved != now:
            raise BadInput(
                f"tenant '{name}': the {now.sequences} sequences of the first {resumption.steps} steps are not the "
                f"{saved.sequences} that the checkpoint was trained on; resume with the same workload and seed"
            )


def load_states(resumption: Resumption, plan: DeploymentPlan, engine: Engine) -> None:
    """Put the checkpoint's tenants into a freshly deployed plan, on whatever layout."""
    assert resumption.folder is not None
    for tenant in plan.tenants:
        if tenant.name not in resumption.tenants:
            raise BadInput(f"tenant '{tenant.name}': it is not in {resumption.folder}; resume with the same tenants")
        state = read_state(resumption.folder, tenant.name)
        if state.tenant != tenant:
            raise BadInput(
                f"tenant '{tenant.name}': the plan's settings differ from those in {resumption.folder}; "
                "resume with the same ones"
            )
        engine.load(state)
