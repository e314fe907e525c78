"""What a model or a data set is, whatever folder it lies in: parts of the name of a run's numbers."""

import hashlib
from pathlib import Path
from typing import Any

from lobra.errors import BadInput
from lobra.store import MANIFEST

TENANT = "tenant "
MACHINE = "machine.json"  # what rank 0 says of its hardware, among the ranks' files


def model_identity(knobs: dict[str, Any]) -> dict[str, Any]:
    """The knobs of a model; of a directory its config.json and the sizes of its weight files instead of its path."""
    if knobs.get("kind") != "directory":
        return knobs
    folder = Path(knobs["path"])
    weights = {path.name: path.stat().st_size for path in sorted(folder.glob("*.safetensors"))}
    return {**knobs, "path": None, "config": _sha256(folder / "config.json"), "weights": weights}


def data_identity(knobs: dict[str, Any]) -> dict[str, Any]:
    """The knobs of the data; of stores their manifests, which hold checksums of everything else, instead of paths."""
    if knobs.get("kind") == "store":
        root = Path(knobs["path"])
        found = {path.parent.name: _sha256(path) for path in sorted(root.glob(f"*/{MANIFEST}"))}
        return {"kind": "stores", **found}
    if knobs.get("kind") == "stores":
        return {"kind": "stores", **{name: _sha256(path / MANIFEST) for name, path in store_places(knobs).items()}}
    return knobs


def store_places(knobs: dict[str, Any]) -> dict[str, Path]:
    """Folders by tenant in the knobs of kind stores, where the key of tenant a is `tenant a`."""
    return {key.removeprefix(TENANT): Path(path) for key, path in knobs.items() if key.startswith(TENANT)}


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); give the folder of a model or token store"
        ) from None
