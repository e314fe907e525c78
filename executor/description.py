"""The run description: everything ranks must agree on before the first step, frozen in `run.json`."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from executor.identity import data_identity, model_identity
from lobra.codec import parse
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.spec import positive

SCHEMA = 1
NAME = "run.json"

FaultKind = Literal["kill", "raise", "hang", "exit", "freeze", "terminate"]
Knobs = tuple[tuple[str, str | int | float | bool | None], ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a rank commits against itself, for tests: at the first mark of that phase in that step."""

    kind: FaultKind  # SIGKILL, exception, endless sleep, exit without a word, SIGSTOP, SIGTERM
    rank: int
    step: int  # counted in step plans from 0
    phase: str = "step"

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise BadInput(f"fault: kind is {self.kind!r}; choose {', '.join(get_args(FaultKind))}")


@dataclass(frozen=True, slots=True)
class Execution:
    """How a job runs. The first three decide its numbers; the rest say how it is run and watched.

    model: random with a seed, or directory with its path. data: synthetic or patterns with a seed, store with the path
    of a folder that holds a store for each tenant, or stores with a path for each tenant by name.
    """

    settings: Knobs = ()  # of executor.settings.Settings, by name; what is not named keeps its default
    model: Knobs = (("kind", "random"), ("seed", 0))
    data: Knobs = (("kind", "synthetic"), ("seed", 0))
    ranks: int = 1
    device: str = "auto"  # cuda where there is one for every local rank, else cpu
    threads: int = 1  # of a rank on the CPU: more than the cores allow costs 12-20x (measured)
    deadline_seconds: float = 120.0  # without progress a rank counts as hung
    setup_seconds: float = 600.0  # the same while weights are loaded or a checkpoint is written
    rendezvous_seconds: float = 60.0
    grace_seconds: float = 30.0  # from the wish to stop until ranks that did not are ended
    checkpoint_steps: int = 100  # 0: only when asked to stop and at the end
    checkpoint_seconds: float = 600.0
    keep: int = 2  # generations of checkpoints
    failed_saves: int = 10  # steps that go on while a checkpoint cannot be written
    counted: tuple[int, ...] = ()  # steps in which the bytes kept for backward are counted, which takes time
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        positive("execution", ranks=self.ranks, threads=self.threads, keep=self.keep)
        positive("execution", deadline_seconds=self.deadline_seconds, setup_seconds=self.setup_seconds)
        positive("execution", rendezvous_seconds=self.rendezvous_seconds, checkpoint_seconds=self.checkpoint_seconds)
        if self.checkpoint_steps < 0 or self.failed_saves < 0:
            raise BadInput(
                f"execution: checkpoint_steps {self.checkpoint_steps} and failed_saves {self.failed_saves} "
                "must not be negative"
            )
        if self.device not in ("auto", "cpu", "cuda"):
            raise BadInput(f"execution: device is {self.device!r}; choose auto, cpu or cuda")

    def numerics(self) -> str:
        """sha256 of what decides the numbers: a checkpoint is only continued under the same.

        Files count by their content (manifests of stores, a model's config.json and its files' sizes), not their place.
        """
        model, data = dict(self.model), dict(self.data)
        return _sha256({"settings": dict(self.settings), "model": model_identity(model), "data": data_identity(data)})


def knobs(values: dict[str, Any]) -> Knobs:
    """A mapping of plain values as a frozen, sorted tuple."""
    for key, value in values.items():
        if not isinstance(value, str | int | float | bool | None):
            raise BadInput(f"execution: {key} is {value!r}; give text, a number, true, false or null")
    return tuple(sorted(values.items()))


def freeze(folder: Path, execution: Execution) -> str:
    """Write `run.json`, durable and read-only; the sha256 of its content."""
    body = _plain(execution)
    digest = _sha256(body)
    text = json.dumps({"schema": SCHEMA, "execution": body, "sha256": digest}, indent=2, allow_nan=False) + "\n"
    write_atomically(folder / NAME, text)
    (folder / NAME).chmod(0o444)
    return digest


def load(folder: Path) -> Execution:
    """The description in a job's folder; BadInput names the file and what is wrong with it."""
    path = folder / NAME
    try:
        envelope = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the folder of a job") from None
    except (BadInput, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from None
    if not isinstance(envelope, dict) or envelope.get("schema") != SCHEMA:
        raise BadInput(f"{path}: $.schema: expected {SCHEMA}; this version reads schema {SCHEMA} only")
    body = envelope.get("execution")
    if not isinstance(body, dict) or envelope.get("sha256") != _sha256(body):
        raise BadInput(f"{path}: its sha256 does not match its content; it was changed after it was frozen")
    try:
        return _execution(body)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _execution(body: dict[str, Any]) -> Execution:
    known = {field.name for field in fields(Execution)}
    if set(body) != known:
        raise BadInput(f"$.execution: its fields differ from those of this version in {sorted(set(body) ^ known)}")
    values = {**body, "faults": tuple(Fault(**fault) for fault in body["faults"]), "counted": tuple(body["counted"])}
    return Execution(**{**values, **{name: knobs(body[name]) for name in ("settings", "model", "data")}})


def _plain(execution: Execution) -> dict[str, Any]:
    body = asdict(execution)
    return {
        **body,
        **{name: dict(body[name]) for name in ("settings", "model", "data")},
        "faults": list(body["faults"]),
        "counted": list(body["counted"]),
    }


def agreed(execution: Execution, versions: dict[str, str]) -> bytes:
    """What every rank must hold alike, as canonical JSON: the description and the versions of what runs it."""
    return _canonical({"execution": _plain(execution), "versions": versions})


def first_difference(mine: bytes, other: bytes) -> str:
    """The first field in which two such texts differ, with both values."""
    left, right = (dict(_flat("", parse(text.decode()))) for text in (mine, other))
    for name in sorted(left.keys() | right.keys()):
        if left.get(name) != right.get(name):
            return f"{name} is {left.get(name)!r} there and {right.get(name)!r} here"
    return "nothing"


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flat(f"{prefix}.{key}" if prefix else key, item)]
    return [(prefix, value)]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _sha256(value: Any) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()
