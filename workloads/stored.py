"""Lengths and labels of a prepared token store: what is planned is then exactly what is trained."""

from pathlib import Path

from lobra.errors import BadInput
from lobra.store import read_store
from workloads.sources import Rows


def store_rows(path: Path, owner: str) -> Rows:
    """Tokens and labels of every sequence of the store; BadInput names owner and file of a broken one."""
    try:
        store = read_store(path)
    except BadInput as error:
        raise BadInput(f"{owner}: {error}") from None
    empty = store.origin.get("empty", 0)
    return Rows(store.lengths, store.labels, empty if type(empty) is int else 0)
