"""A job: what one configuration asks for, under the name that follows from it."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from experiments import schema
from experiments.acknowledged import MARKS, kept, refuse_shorter
from experiments.composing import policy_configs, policy_names, with_plans
from experiments.rundir import digest, locked, write_run
from experiments.running import plan_file
from experiments.schema_executor import Torch
from experiments.schema_policy import Policy
from experiments.shipped import tenants_file
from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.store import MANIFEST
from workloads.strict_yaml import read_yaml

RUNS = Path("runs")
DONE = "DONE"


@dataclass(frozen=True, slots=True)
class Done:
    """How a job ended: 0 done, 4 partly; its GPU seconds a step, for sweepers; figures for a sweep's table."""

    exit_code: int
    objective: float | None
    figures: dict[str, float | None]
    reason: str = ""  # why only partly


@dataclass(frozen=True, slots=True)
class Job:
    """A verb with its configuration: as objects, and as plain data."""

    verb: str
    config: schema.World
    policies: dict[str, Policy]
    plain: dict[str, Any]
    name: str  # hash of all of it: equal names, equal results

    def folder(self) -> Path:
        """Where a single run puts its files."""
        return Path(self.config.run_dir) if self.config.run_dir else RUNS / self.verb / self.name


Work = Callable[[Job, Path], Done]


def job_of(verb: str, config: DictConfig) -> Job:
    """The job of a composed configuration; BadInput or OmegaConf's errors where it is incomplete."""
    plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    typed = cast(schema.World, OmegaConf.to_object(config))
    if isinstance(typed, schema.Run):
        policy = with_plans(typed.policy, typed.plans)
        policies = {policy.name: policy}
        plain = {key: value for key, value in plain.items() if key != "policies"}
    else:
        names = typed.policies if typed.policies is not None else policy_names()
        policies = policy_configs(names, typed.plans)
    return described(verb, typed, plain, policies)


def described(verb: str, typed: schema.World, plain: dict[str, Any], policies: dict[str, Policy]) -> Job:
    """The job of a configuration, as objects and as plain data, with these policies instead of those it names."""
    plain = plain | {"policies": {name: asdict(policy) for name, policy in policies.items()}}
    return Job(verb, typed, policies, plain, digest(verb, plain, evidence(typed.workload, *_named_files(typed))))


def perform(job: Job, folder: Path, work: Work) -> Done:
    """Do the work in its run directory, which nobody else writes to meanwhile."""
    with locked(folder, wait=False):
        return begun(job, folder, work)


def in_folder(verb: str, plain: dict[str, Any], work: Callable[[Path], int], read: str = "") -> int:
    """Do a verb without policies in its run directory; its exit code. read: hash of the files that it reads."""
    name = digest(verb, plain, read)
    folder = Path(plain["run_dir"]) if plain["run_dir"] else RUNS / verb / name
    with locked(folder, wait=False):
        (folder / "summary.json").unlink(missing_ok=True)
        write_run(folder, verb, name, plain)
        return work(folder)


def begun(job: Job, folder: Path, work: Work) -> Done:
    """The work itself, in a directory that is already held; old marks of completion go first, unless it is refused."""
    refuse_shorter(job.config, folder, tuple(job.policies))
    with kept(folder, MARKS) if isinstance(job.config.backend, Torch) else nullcontext():
        for mark in (DONE, "summary.json"):
            (folder / mark).unlink(missing_ok=True)
        write_run(folder, job.verb, job.name, job.plain)
        write_atomically(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(job.plain)))
        return work(job, folder)


def evidence(workload: Any, *others: Path) -> str:
    """Hash of a user's own workload file, of every file that it names, and of others; "" where there is none."""
    files = [*others, *(_tenants_files(workload) if isinstance(workload, schema.OwnWorkload) else [])]
    parts = [file.read_bytes() for file in files if file.is_file()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest() if files else ""


def _named_files(config: schema.World) -> list[Path]:
    """Files beside the workload's: coefficients, a running plan, and the description of a model directory."""
    files = [Path(config.cost.file)] if config.cost.file is not None else []
    if isinstance(config, schema.Plan) and config.running is not None:
        files.append(plan_file(config.running))
    return files if config.model.path is None else [*files, Path(config.model.path) / "config.json"]


def _tenants_files(workload: schema.OwnWorkload) -> list[Path]:
    """A user's own workload file and every file that it names, of a token store its manifest."""
    path = tenants_file(workload.file)
    if not path.is_file():
        raise BadInput(f"workload.file: {workload.file} is no file; give the YAML that describes the tenants")
    named = sorted(set(_texts(read_yaml(path.read_bytes(), str(path)))))
    files = [path.parent / text for text in named if len(text) < 4096 and "\0" not in text]
    return [path, *(file / MANIFEST if file.is_dir() else file for file in files)]


def _texts(value: Any) -> Iterator[str]:
    """Every string in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
