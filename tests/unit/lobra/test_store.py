"""A token store gives back what was written, and refuses everything else."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.errors import BadInput
from lobra.store import StoreWriter, read_store

SEQUENCES = [([5, 6, 7, 2], [(2, 4)]), ([1], []), ([9, 8, 7, 6, 5, 4, 2], [(1, 3), (5, 7)])]


def write(path, sequences=SEQUENCES, vocabulary=10, **origin):
    with StoreWriter(path, vocabulary) as store:
        for ids, spans in sequences:
            store.append(ids, spans)
        store.origin |= origin
    return path


def content(path):
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def test_sequences_come_back_with_their_spans_lengths_and_labels(tmp_path):
    store = read_store(write(tmp_path / "s", text="a.jsonl"))

    assert [
        (ids.tolist(), [tuple(span) for span in spans.tolist()]) for ids, spans in map(store.sequence, range(3))
    ] == (SEQUENCES)
    assert (len(store), store.lengths.tolist(), store.labels.tolist()) == (3, [4, 1, 7], [2, 0, 4])
    assert (store.vocabulary, store.origin) == (10, {"text": "a.jsonl"})


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([2**16, 2**16 + 1]))
def test_any_sequences_come_back(tmp_path_factory, data, vocabulary):
    def spans(length):
        borders = st.lists(st.integers(1, length), unique=True, max_size=6).map(sorted)
        return borders.map(lambda found: list(zip(found[::2], found[1::2], strict=False)))

    ids = st.lists(st.integers(0, vocabulary - 1), min_size=1, max_size=20)
    one = ids.flatmap(lambda found: st.tuples(st.just(found), spans(len(found))))
    sequences = data.draw(st.lists(one, min_size=1, max_size=5))
    store = read_store(write(tmp_path_factory.mktemp("any") / "s", sequences, vocabulary))

    assert [store.sequence(i)[0].tolist() for i in range(len(store))] == [found for found, _ in sequences]
    assert store.labels.tolist() == [sum(end - start for start, end in found) for _, found in sequences]
    assert store.ids.dtype == (np.uint16 if vocabulary == 2**16 else np.uint32)


def test_ids_are_mapped_and_cannot_be_written_to(tmp_path):
    ids, _ = read_store(write(tmp_path / "s")).sequence(0)

    assert isinstance(ids.base, np.memmap) or isinstance(ids, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 1


def test_the_same_sequences_give_the_same_bytes(tmp_path):
    assert content(write(tmp_path / "a")) == content(write(tmp_path / "b"))


def test_the_manifest_names_counts_and_checksums(tmp_path):
    path = write(tmp_path / "s")
    manifest = json.loads((path / "manifest.json").read_text())

    assert {key: manifest[key] for key in ("sequences", "tokens", "spans")} == {
        "sequences": 3,
        "tokens": 12,
        "spans": 3,
    }
    for name, written in manifest["files"].items():
        data = (path / name).read_bytes()
        assert written == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize(
    ("ids", "spans", "named"),
    [
        ([], [], "has 0 tokens"),
        ([10], [], "exceed the vocabulary of 10"),
        ([-1], [], "exceed the vocabulary"),
        ([1, 2], [(0, 2)], "spans is"),  # nothing stands before the first token
        ([1, 2], [(1, 3)], "spans is"),
        ([1, 2, 3], [(2, 2)], "spans is"),
        ([1, 2, 3, 4], [(1, 3), (2, 4)], "spans is"),
        ([1, 2, 3, 4], [(3, 4), (1, 2)], "spans is"),
    ],
)
def test_a_sequence_that_cannot_be_trained_is_refused_and_leaves_nothing(tmp_path, ids, spans, named):
    with pytest.raises(BadInput, match=named):
        write(tmp_path / "s", [*SEQUENCES, (ids, spans)])

    assert list(tmp_path.iterdir()) == []


def test_a_store_without_a_sequence_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no sequence was given"):
        write(tmp_path / "s", [])

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "s")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_nothing_is_written_over_what_is_there(tmp_path, kind):
    path = tmp_path / "s"
    if kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(BadInput, match="it exists already"):
        write(path)
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


def test_every_flipped_byte_is_found(tmp_path):
    path = write(tmp_path / "s")
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for offset in range(len(whole) if file.suffix == ".bin" else 0):
            file.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
            with pytest.raises(BadInput, match=file.name):
                read_store(path)
        file.write_bytes(whole)

    assert len(read_store(path)) == 3


@pytest.mark.parametrize("verify", [True, False])
def test_a_truncated_or_missing_file_is_found_without_reading_it(tmp_path, verify):
    path = write(tmp_path / "s")
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for cut in range(0, len(whole) - 1, 7):
            file.write_bytes(whole[:cut])
            with pytest.raises(BadInput):
                read_store(path, verify=verify)
        file.unlink()
        with pytest.raises(BadInput):
            read_store(path, verify=verify)
        file.write_bytes(whole)

    assert len(read_store(path)) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"kind": "other"},
        {"sequences": 0},
        {"sequences": "3"},
        {"tokens": 13},
        {"vocabulary": 2**16 + 1},
        {"files": {}},
        {"origin": None},
    ],
)
def test_a_manifest_that_says_otherwise_is_refused(tmp_path, change):
    path = write(tmp_path / "s")
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | change))

    with pytest.raises(BadInput):
        read_store(path)


@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        ("offsets.bin", "<i8", [0, 4, 4, 12]),
        ("offsets.bin", "<i8", [0, 4, 5, 11]),
        ("offsets.bin", "<i8", [0, -4, 5, 12]),
        ("span_offsets.bin", "<i8", [0, 2, 1, 3]),
        ("spans.bin", "<i4", [2, 5, 1, 3, 5, 7]),
        ("spans.bin", "<i4", [0, 4, 1, 3, 5, 7]),
        ("spans.bin", "<i4", [4, 2, 1, 3, 5, 7]),
    ],
)
def test_columns_that_contradict_each_other_are_refused_even_without_checksums(tmp_path, name, dtype, values):
    path = write(tmp_path / "s")
    (path / name).write_bytes(np.asarray(values, dtype).tobytes())

    with pytest.raises(BadInput, match="offsets or spans contradict the tokens"):
        read_store(path, verify=False)


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(BadInput, match="it is no token store"):
        read_store(tmp_path)


@pytest.mark.parametrize("index", [-1, 3])
def test_a_sequence_that_is_not_there_is_refused(tmp_path, index):
    with pytest.raises(BadInput, match=f"there is no sequence {index}; it holds 3"):
        read_store(write(tmp_path / "s")).sequence(index)


def test_a_store_may_be_moved(tmp_path):
    path = write(tmp_path / "s")
    shutil.move(path, tmp_path / "t")

    assert len(read_store(tmp_path / "t")) == 3
