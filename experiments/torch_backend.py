"""The executor as a backend: what its ranks must know, from the configuration of a job."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from executor.description import Execution, knobs
from executor.huggingface_config import read_config
from executor.identity import TENANT
from executor.launch import Attached, Torchrun
from experiments import schema
from experiments.schema_executor import Torch
from experiments.shipped import tenants_file
from lobra.errors import BadInput
from lobra.protocols import Backend
from lobra.spec import ClusterSpec, Tenant
from workloads.own import store_folders, text_tenants

JOB = "job"  # the executor's own folder in a group's: ranks' logs, checkpoints, finished adapters
LAUNCHERS = ("own", "torchrun", "attached")


def check_installed() -> None:
    """BadInput where what the ranks import is not there."""
    for package in ("torch", "safetensors"):
        if importlib.util.find_spec(package) is None:
            raise BadInput(f"backend: the executor needs the package '{package}'; install lobra[executor]")


def torch_backend(config: schema.World, cluster: ClusterSpec, tenants: tuple[Tenant, ...]) -> Callable[[Path], Backend]:
    """Makes the backend of a group, which keeps its own files in the group's folder."""
    made = execution(config, cluster, tenants)
    return launched(config.backend, made)


def launched(wanted: Torch, made: Execution) -> Callable[[Path], Backend]:
    """The backend of a group's folder, by the launcher that is wanted."""
    check_installed()
    match wanted.launcher:
        case "attached":
            return lambda folder: Attached(folder / JOB, made, resume=wanted.resume)
        case "own" | "torchrun" as launcher:
            return lambda folder: Torchrun(folder / JOB, made, launcher, resume=wanted.resume)
    raise BadInput(f"backend.launcher is {wanted.launcher!r}; choose {', '.join(LAUNCHERS)}")


def execution(config: schema.World, cluster: ClusterSpec, tenants: tuple[Tenant, ...]) -> Execution:
    """The run description: a rank for every GPU of the cluster."""
    wanted = config.backend
    if config.model.path is not None:
        read_config(Path(config.model.path)).check_contexts(tenants)
    decays = any(tenant.schedule != "constant" for tenant in tenants)
    total = wanted.total_updates or (config.steps if decays else None)
    return described(wanted, config.model, cluster, data=_data(wanted, config.workload), total_updates=total)


def described(
    wanted: Torch, model: schema.Model, cluster: ClusterSpec, *, data: dict[str, Any], total_updates: int | None
) -> Execution:
    """The run description of these knobs."""
    settings = {
        "dtype": wanted.dtype,
        "attention": wanted.attention,
        "lora": wanted.lora,
        "quarantine_after": wanted.quarantine_after,
        "bucket_bytes": wanted.bucket_bytes,
        "total_updates": total_updates,
    }
    weights = {"kind": "random", "seed": wanted.weights_seed}
    if model.path is not None:
        weights = {"kind": "directory", "path": str(Path(model.path).resolve())}
    try:
        return Execution(
            settings=knobs(settings),
            model=knobs(weights),
            data=knobs(data),
            ranks=cluster.gpus,
            device=wanted.device,
            threads=wanted.threads,
            deadline_seconds=wanted.deadline_seconds,
            setup_seconds=wanted.setup_seconds,
            rendezvous_seconds=wanted.rendezvous_seconds,
            grace_seconds=wanted.grace_seconds,
            checkpoint_steps=wanted.checkpoint_steps,
            checkpoint_seconds=wanted.checkpoint_seconds,
            keep=wanted.keep,
        )
    except BadInput as error:
        raise BadInput(f"backend: {str(error).removeprefix('execution: ')}") from None


def _data(wanted: Torch, workload: Any) -> dict[str, Any]:
    """Knobs of the data: what is asked for; by default what the tenants' file names."""
    kind, path = wanted.data.kind, wanted.data.path
    if kind == "auto":
        return _own_stores(workload) or {"kind": "patterns", "seed": wanted.data.seed}
    if kind in ("synthetic", "patterns"):
        return {"kind": kind, "seed": wanted.data.seed}
    if kind == "store" and path is not None:
        return {"kind": kind, "path": str(Path(path).resolve())}
    raise BadInput(
        f"backend.data: kind is {kind!r} and path {path!r}; choose auto, synthetic, patterns, or store with a path"
    )


def _own_stores(workload: Any) -> dict[str, Any] | None:
    """The tenants' stores; None where they have none at all."""
    if not isinstance(workload, schema.OwnWorkload):
        return None
    file = tenants_file(workload.file)
    folders = store_folders(file)
    lacking = [name for name, folder in folders.items() if folder is None]
    texts = text_tenants(file)
    if texts or (lacking and len(lacking) < len(folders)):
        raise BadInput(
            f"backend.data: tenant '{(texts or lacking)[0]}' has no token store; make one with `lobra prepare` and "
            "name it as `store` in the tenants' file, or set backend.data.kind=patterns to train on made-up tokens"
        )
    if lacking:
        return None
    return {"kind": "stores"} | {f"{TENANT}{name}": str(folder.resolve()) for name, folder in folders.items() if folder}
