"""Tokenised sequences in a folder, read through memory maps.

ids.bin: the tokens of all sequences one behind another, uint16 or uint32. offsets.bin: int64 [n + 1], where each
begins. spans.bin: int32 [m, 2], which tokens of a sequence carry loss, from the first to behind the last, counted from
its own beginning; span_offsets.bin: int64 [n + 1], which spans are whose. All little-endian. manifest.json: counts,
sizes and sha256 of the four, and where the text came from.

A span begins at 1 or later: nothing stands before the first token, so it is never predicted.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from lobra.folders import new_folder
from lobra.json_file import read_object

SCHEMA = 1
KIND = "token store"
MANIFEST = "manifest.json"
FILES = ("ids.bin", "offsets.bin", "spans.bin", "span_offsets.bin")
LONGEST = 2**31 - 1  # tokens of a sequence: lengths are int32 in a batch
PIECE = 1 << 20  # bytes hashed at a time

Span = tuple[int, int]


class StoredSequence(NamedTuple):
    """One sequence; both arrays are views of the file."""

    ids: Array  # uint16 or uint32 [length]
    spans: Array  # int32 [m, 2], ascending, disjoint


@dataclass(frozen=True, slots=True, eq=False)
class TokenStore:
    """A store that was read; everything in it is mapped, not loaded."""

    path: Path
    vocabulary: int  # every id lies below
    origin: dict[str, Any]  # where the text came from: names and checksums, counts, rules
    ids: Array  # uint16 or uint32 [tokens]
    offsets: Array  # int64 [n + 1]
    spans: Array  # int32 [m, 2]
    span_offsets: Array  # int64 [n + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Array:
        """Tokens of every sequence, int64 [n]."""
        return np.diff(self.offsets)

    @property
    def labels(self) -> Array:
        """Tokens that carry loss, int64 [n]."""
        sums = np.concatenate(([0], np.cumsum(self.spans[:, 1].astype(np.int64) - self.spans[:, 0])))
        return np.diff(sums[self.span_offsets])

    def sequence(self, index: int) -> StoredSequence:
        """The index-th sequence; BadInput where there is none."""
        if not 0 <= index < len(self):
            raise BadInput(f"{self.path}: there is no sequence {index}; it holds {len(self)}, counted from 0")
        ids = self.ids[self.offsets[index] : self.offsets[index + 1]]
        return StoredSequence(ids, self.spans[self.span_offsets[index] : self.span_offsets[index + 1]])


class StoreWriter:
    """Writes a new store, sequence by sequence; `with` it: the folder appears whole at the end, or not at all."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        if not 1 <= vocabulary <= 2**32:
            raise BadInput(f"{path}: vocabulary is {vocabulary}; it must lie in 1..{2**32}")
        self.path = path
        self.origin: dict[str, Any] = {}  # may be filled until the end
        self._vocabulary = vocabulary
        self._dtype = _id_dtype(vocabulary)
        self._offsets, self._span_offsets, self._spans = [0], [0], list[Span]()
        self._block = new_folder(path)

    def __enter__(self) -> Self:
        self._folder = self._block.__enter__()
        self._file: BinaryIO = (self._folder / "ids.bin").open("wb")
        return self

    def append(self, ids: Sequence[int], spans: Sequence[Span]) -> None:
        """One more sequence with the spans that carry loss, ascending. BadInput where it cannot be trained."""
        where = f"{self.path}: sequence {len(self._offsets) - 1}"
        if not 0 < len(ids) <= LONGEST:
            raise BadInput(f"{where} has {len(ids)} tokens; it must have 1..{LONGEST}")
        if min(ids) < 0 or max(ids) >= self._vocabulary:
            raise BadInput(f"{where}: its ids {min(ids)}..{max(ids)} exceed the vocabulary of {self._vocabulary}")
        borders = [1, *(border for span in spans for border in span), len(ids)]
        if borders != sorted(borders) or any(start >= end for start, end in spans):
            raise BadInput(f"{where}: spans is {list(spans)}; give ascending ranges within 1..{len(ids)}, none empty")
        self._file.write(np.asarray(ids, self._dtype).tobytes())
        self._offsets.append(self._offsets[-1] + len(ids))
        self._spans.extend(spans)
        self._span_offsets.append(len(self._spans))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            try:
                self._finish()
            except BaseException as late:
                self._block.__exit__(type(late), late, late.__traceback__)
                raise
        self._block.__exit__(kind, error, trace)

    def _finish(self) -> None:
        if len(self._offsets) == 1:
            raise BadInput(f"{self.path}: no sequence was given; a store holds at least one")
        columns = {
            "offsets.bin": np.asarray(self._offsets, "<i8"),
            "spans.bin": np.asarray(self._spans, "<i4").reshape(-1, 2),
            "span_offsets.bin": np.asarray(self._span_offsets, "<i8"),
        }
        for name, column in columns.items():
            (self._folder / name).write_bytes(column.tobytes())
        manifest = {
            "schema": SCHEMA,
            "kind": KIND,
            "sequences": len(self._offsets) - 1,
            "tokens": self._offsets[-1],
            "spans": len(self._spans),
            "vocabulary": self._vocabulary,
            "files": {name: _fingerprint(self._folder / name) for name in FILES},
            "origin": self.origin,
        }
        text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False)
        (self._folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_store(path: Path, *, verify: bool = True) -> TokenStore:
    """The store in this folder. verify: its bytes are those that were written (one rank of a job is enough).

    BadInput names what is missing, cut or altered.
    """
    manifest = _manifest(path)
    dtypes = {"ids.bin": _id_dtype(manifest["vocabulary"]), "offsets.bin": "<i8", "span_offsets.bin": "<i8"}
    n, tokens, spans = manifest["sequences"], manifest["tokens"], manifest["spans"]
    shapes = {"ids.bin": (tokens,), "offsets.bin": (n + 1,), "spans.bin": (spans, 2), "span_offsets.bin": (n + 1,)}
    arrays = {}
    for name in FILES:
        dtype = np.dtype(dtypes.get(name, "<i4"))
        _check_file(path / name, manifest["files"][name], int(np.prod(shapes[name])) * dtype.itemsize, verify)
        arrays[name] = _mapped(path / name, dtype, shapes[name])
    store = TokenStore(path, manifest["vocabulary"], manifest["origin"], *(arrays[name] for name in FILES))
    _check_columns(store)
    return store


def _manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.is_file():
        raise BadInput(f"{path}: it is no token store (no {MANIFEST}); make one with `lobra prepare`")
    body = read_object(file)
    if (body.get("schema"), body.get("kind")) != (SCHEMA, KIND):
        raise BadInput(f"{file}: it is no manifest of a {KIND} of schema {SCHEMA}; prepare the store again")
    for field, least in (("sequences", 1), ("tokens", 1), ("spans", 0), ("vocabulary", 1)):
        if type(body.get(field)) is not int or body[field] < least:
            raise BadInput(f"{file}: {field} is {body.get(field)!r}; it must be a whole number >= {least}")
    files = body.get("files")
    if not isinstance(files, dict) or set(files) != set(FILES) or not isinstance(body.get("origin"), dict):
        raise BadInput(f"{file}: it must describe exactly {', '.join(FILES)}, and the origin; prepare the store again")
    return body


def _check_file(file: Path, written: Any, size: int, verify: bool) -> None:
    try:
        found = file.stat().st_size
    except OSError as error:
        raise BadInput(f"{file}: cannot be read ({error.strerror}); prepare the store again") from None
    if found != size:
        raise BadInput(f"{file}: it has {found} bytes, but the manifest's counts need {size}; prepare the store again")
    if verify and _fingerprint(file) != written:
        raise BadInput(f"{file}: its content differs from what was written (sha256); prepare the store again")


def _check_columns(store: TokenStore) -> None:
    lengths, counts = store.lengths, np.diff(store.span_offsets)
    whole = (store.offsets[0], store.offsets[-1], store.span_offsets[0], store.span_offsets[-1])
    sound = whole == (0, len(store.ids), 0, len(store.spans)) and lengths.min() > 0 and counts.min() >= 0
    if sound and len(store.spans):
        ends = np.repeat(lengths, counts)
        sound = bool((store.spans[:, 0] >= 1).all() and (store.spans[:, 0] < store.spans[:, 1]).all())
        sound = sound and bool((store.spans[:, 1] <= ends).all())
    if not sound:
        raise BadInput(f"{store.path}: offsets or spans contradict the tokens; prepare the store again")


def _mapped(file: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if 0 in shape:
        return np.zeros(shape, dtype)  # an empty file cannot be mapped
    return np.memmap(file, dtype, "r", shape=shape)


def _id_dtype(vocabulary: int) -> str:
    return "<u2" if vocabulary <= 2**16 else "<u4"


def _fingerprint(file: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as content:
        while piece := content.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return {"bytes": size, "sha256": digest.hexdigest()}
