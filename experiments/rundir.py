"""The run directory: what a result rests on, and a name that follows from it."""

import fcntl
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lobra
from lobra.codec import parse
from lobra.errors import BadInput
from lobra.files import write_atomically

SCHEMA = 1
PACKAGES = ("lobra", "numpy", "scipy", "highspy", "gurobipy", "simpy", "hydra-core", "omegaconf", "pyarrow", "torch")
NO_PART_OF_A_RESULT = ("run_dir", "fail_fast", "workers", "jobs")  # they say where and how, not what


def digest(verb: str, config: dict[str, Any], evidence: str = "") -> str:
    """The name of a result: 16 hexadecimal digits of its resolved configuration, and of the data it reads."""
    kept = {key: value for key, value in config.items() if key not in NO_PART_OF_A_RESULT}
    described = {"schema": SCHEMA, "version": version("lobra"), "verb": verb, "config": kept, "evidence": evidence}
    return hashlib.sha256(canonical(described).encode()).hexdigest()[:16]


def canonical(value: Any) -> str:
    """JSON in which equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def pretty(value: Any) -> str:
    """JSON for people and programs; NaN and infinity are refused."""
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def write_run(folder: Path, verb: str, name: str, config: dict[str, Any]) -> None:
    """`run.json`: everything needed to repeat the run."""
    described = {
        "schema": SCHEMA,
        "verb": verb,
        "config_hash": name,
        "seed": config.get("seed"),
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
        "config": config,
    }
    write_atomically(folder / "run.json", pretty(described))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of ours; BadInput names the file and what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the directory of a finished run") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: it is not UTF-8 text; give the directory of a finished run") from None
    try:
        value = parse(text)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        found = value.get("schema") if isinstance(value, dict) else type(value).__name__
        raise BadInput(f"{path}: $.schema: expected {SCHEMA}, got {found!r}; this version reads schema {SCHEMA} only")
    return value


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold a run directory; another process waits, or is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"run_dir {folder}: cannot be written ({error.strerror}); choose another directory") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"run_dir {folder}: another process writes to it; choose another directory") from None
        yield


def version(package: str) -> str | None:
    """The installed version; None where it is absent."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """The commit checked out beside the code; None outside a checkout."""
    git = Path(lobra.__file__).parent.parent / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        reference = head.removeprefix("ref: ")
        if (git / reference).is_file():
            return (git / reference).read_text(encoding="utf-8").strip()
        packed = (git / "packed-refs").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.split()[0] for line in packed if line.endswith(" " + reference)), None)
