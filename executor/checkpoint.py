"""Checkpoints: every tenant's whole state in one folder that is either complete or absent, two generations of them.

    checkpoints/step-00000012/MANIFEST.json                  written last; names every file with size and sha256
    checkpoints/step-00000012/tenants/NAME/state.safetensors values, moments, waiting gradients, as whole matrices
    checkpoints/step-00000012/tenants/NAME/state.json        the tenant and its counters
    checkpoints/step-00000012/tenants/NAME/adapter/          the same adapter as PEFT reads it

The folder is filled under a hidden name, flushed and renamed. Nothing in it depends on a layout. A resumed run equals
an uninterrupted one bit for bit, unless a tenant was between two of its updates: its waiting gradient is one sum then.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from executor import manifest as manifests
from executor.config import ModelConfig
from executor.manifest import Cursor, FileEntry, Manifest
from executor.peft_format import export_adapter
from executor.state import KINDS, TenantState
from lobra.codec import parse
from lobra.errors import BadInput
from lobra.folders import flush
from lobra.spec import Tenant

CHUNK = 1 << 16  # bytes written at once
FOLDER = re.compile(r"step-\d{8,}")
COUNTERS = ("updates", "labels", "strikes", "quarantined", "finite")

Tick = Callable[[int], None]


class Draft:
    """A checkpoint in the making. `tick` is called before each chunk of bytes, with their number so far."""

    def __init__(
        self, root: Path, steps: int, numerics: str, tick: Tick = lambda _: None, *, chunk: int = CHUNK
    ) -> None:
        self._root = root
        self._steps = steps
        self._numerics = numerics
        self._tick = tick
        self._chunk = chunk
        self._written = 0
        self._files: dict[str, FileEntry] = {}
        self._names: list[str] = []
        self.refused: dict[str, str] = {}  # tenants whose adapter is not fit for export, and why
        root.mkdir(parents=True, exist_ok=True)
        self._sweep()
        self._hidden = root / f".draft-{steps:08}-{os.getpid()}"
        self._hidden.mkdir()

    def add(self, state: TenantState, config: ModelConfig) -> None:
        """One more tenant."""
        name = state.tenant.name
        folder = Path("tenants") / name
        (self._hidden / folder).mkdir(parents=True)
        kinds = KINDS if state.labels else tuple(kind for kind in KINDS if kind != "gradient")
        tensors = {
            f"{kind}.{key}": tensor.detach().cpu().contiguous()
            for kind in kinds
            for key, tensor in state.tensors[kind].items()
        }
        self._write(folder / "state.safetensors", save(tensors))
        counters = {field: getattr(state, field) for field in COUNTERS}
        self._write(folder / "state.json", _canonical({"tenant": asdict(state.tenant), **counters}))
        try:
            export_adapter(self._hidden / folder / "adapter", state.tenant, config, state.tensors["value"])
        except BadInput as error:
            self.refused[name] = str(error)
        else:
            for file in sorted((self._hidden / folder / "adapter").iterdir()):
                self._enter(folder / "adapter" / file.name, file.read_bytes())
        flush(self._hidden / folder)
        self._names.append(name)

    def commit(self, cursors: dict[str, Cursor], keep: int) -> Path:
        """Give the checkpoint its name; older generations go only then."""
        made = Manifest(self._steps, self._numerics, tuple(self._names), cursors, dict(self._files))
        self._write(Path(manifests.NAME), manifests.encode(made))
        for folder in (self._hidden / "tenants", self._hidden):
            if folder.exists():
                flush(folder)
        target = self._root / f"step-{self._steps:08}"
        if target.exists():  # of a run that went on from an older one, since this one was damaged or of another time
            set_aside(target)
        self._hidden.rename(target)
        flush(self._root)
        self._tick(self._written)
        for old in generations(self._root)[keep:]:
            shutil.rmtree(old)
        self._sweep()
        return target

    def discard(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._hidden, ignore_errors=True)

    def _write(self, name: Path, content: bytes) -> None:
        with (self._hidden / name).open("xb") as file:
            for start in range(0, len(content), self._chunk):
                piece = content[start : start + self._chunk]
                self._tick(self._written)
                self._written += len(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        self._enter(name, content)

    def _enter(self, name: Path, content: bytes) -> None:
        self._files[name.as_posix()] = FileEntry(len(content), hashlib.sha256(content).hexdigest())

    def _sweep(self) -> None:
        """What a killed writer left, and generations set aside."""
        for folder in self._root.glob(".*"):
            shutil.rmtree(folder, ignore_errors=True)


def generations(root: Path) -> list[Path]:
    """Complete-looking checkpoints, newest first."""
    if not root.is_dir():
        return []
    found = [path for path in root.iterdir() if FOLDER.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")), reverse=True)


def newest(root: Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """The newest checkpoint whose every byte is as it was written, and what is wrong with those that are newer."""
    complaints: list[tuple[Path, str]] = []
    for folder in generations(root):
        try:
            manifests.verify(folder)
        except BadInput as error:
            complaints.append((folder, str(error)))
            continue
        return folder, complaints
    return None, complaints


def set_aside(folder: Path) -> None:
    """Take a damaged checkpoint out of the row of generations; the next save removes it."""
    aside = folder.with_name(f".aside-{folder.name}-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)


def read_state(folder: Path, name: str) -> TenantState:
    """One tenant of a checkpoint that was verified before."""
    place = folder / "tenants" / name
    try:
        body = parse((place / "state.json").read_text(encoding="utf-8"))
        stored = load_file(place / "state.safetensors")
    except (OSError, SafetensorError, UnicodeDecodeError) as error:
        raise BadInput(f"{place}: it cannot be read ({error})") from None
    tensors: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in stored.items():
        kind, matrix = key.split(".", 1)
        tensors.setdefault(kind, {})[matrix] = tensor
    return TenantState(_tenant(body["tenant"]), tensors, **{field: body[field] for field in COUNTERS})


def _tenant(body: dict[str, Any]) -> Tenant:
    return Tenant(**{**body, "target_modules": tuple(body["target_modules"])})


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
