"""The manifest of a checkpoint: what it holds, byte by byte. No file format notices a flipped bit alone (measured)."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lobra.codec import parse
from lobra.errors import BadInput

SCHEMA = 1
NAME = "MANIFEST.json"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the checkpoint."""

    size: int  # bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """What a tenant has been trained on; the hash depends on the sequences of each step, not on who computed them."""

    steps: int = 0
    sequences: int = 0
    tokens: int = 0
    labels: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint says about itself. Random numbers are keyed by (tenant, step, ...): steps is their state."""

    steps: int  # step plans played
    numerics: str  # sha256 of what decides the numbers of the run
    tenants: tuple[str, ...]
    cursors: dict[str, Cursor]
    files: dict[str, FileEntry]  # by path relative to the checkpoint


def encode(manifest: Manifest) -> bytes:
    """The content of `MANIFEST.json`: canonical, with its own sha256."""
    body = {"schema": SCHEMA, **asdict(manifest)}
    return _canonical({"body": body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()})


def decode(raw: bytes, where: str) -> Manifest:
    """The manifest in these bytes; BadInput where a single one of them is wrong."""
    try:
        envelope = parse(raw.decode())
    except (BadInput, UnicodeDecodeError) as error:
        raise BadInput(f"{where}: {error}") from None
    body = envelope.get("body") if isinstance(envelope, dict) else None
    if not isinstance(body, dict) or raw != _canonical(
        {"body": body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()}
    ):
        raise BadInput(f"{where}: its sha256 does not match its content; it is damaged")
    if body.get("schema") != SCHEMA:
        raise BadInput(f"{where}: $.schema: expected {SCHEMA}, got {body.get('schema')!r}")
    return _manifest(body)


def _manifest(body: dict[str, Any]) -> Manifest:
    return Manifest(
        body["steps"],
        body["numerics"],
        tuple(body["tenants"]),
        {name: Cursor(**cursor) for name, cursor in body["cursors"].items()},
        {path: FileEntry(**entry) for path, entry in body["files"].items()},
    )


def verify(folder: Path) -> Manifest:
    """The manifest of a checkpoint whose every file is whole; BadInput names the first that is not."""
    path = folder / NAME
    try:
        manifest = decode(path.read_bytes(), str(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); the checkpoint is incomplete") from None
    for name, entry in manifest.files.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BadInput(f"{path}: it names '{name}', which lies outside the checkpoint")
        _verify_file(folder / name, entry)
    return manifest


def _verify_file(path: Path, entry: FileEntry) -> None:
    try:
        size = path.stat().st_size
        if size != entry.size:
            raise BadInput(f"{path}: it has {size} bytes, not the {entry.size} that were written; it is damaged")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); the checkpoint is incomplete") from None
    if found != entry.sha256:
        raise BadInput(f"{path}: its sha256 is not the one that was written; it is damaged")


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
