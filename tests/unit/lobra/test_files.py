"""Files are whole or absent."""

import os

import pytest

from lobra.files import write_atomically


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "deep" / "summary.json"
    write_atomically(path, "old")
    write_atomically(path, b"new")

    assert path.read_text() == "new"
    assert [file.name for file in path.parent.iterdir()] == ["summary.json"]


def test_a_failure_half_way_keeps_the_old_content_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "summary.json"
    write_atomically(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "new")

    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]
