"""Folders are whole or absent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lobra.errors import BadInput
from lobra.folders import new_folder


def test_a_folder_gets_its_name_when_it_is_full(tmp_path):
    path = tmp_path / "deep" / "adapter"
    with new_folder(path) as hidden:
        (hidden / "sub").mkdir()
        (hidden / "sub" / "a").write_text("1")
        assert not path.exists()

    assert (path / "sub" / "a").read_text() == "1"
    assert [file.name for file in path.parent.iterdir()] == ["adapter"]


def test_every_file_and_the_names_are_flushed_before_and_after_the_rename(tmp_path, monkeypatch):
    flushed, real = [], os.fsync

    def fsync(handle):
        flushed.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with new_folder(tmp_path / "adapter") as hidden:
        (hidden / "a").write_text("1")
        (hidden / "b").write_text("2")

    assert flushed == [str(hidden / "a"), str(hidden / "b"), str(hidden), str(tmp_path)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_half_way_leaves_nothing_behind(tmp_path, error):
    def half_way() -> None:
        with new_folder(tmp_path / "adapter") as hidden:
            (hidden / "a").write_text("1")
            raise error

    with pytest.raises(error):
        half_way()

    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_folder_do_not_mix(tmp_path):
    def slower() -> None:
        with new_folder(tmp_path / "adapter") as hidden:
            (hidden / "b").write_text("2")
            with new_folder(tmp_path / "adapter") as faster:
                (faster / "a").write_text("1")

    with pytest.raises(BadInput, match="exists already"):
        slower()
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")] == ["adapter", "adapter/a"]


def test_a_crash_of_the_process_leaves_only_hidden_names(tmp_path):
    program = f"""
import os
from pathlib import Path
from lobra.folders import new_folder
with new_folder(Path({str(tmp_path / "adapter")!r})) as hidden:
    (hidden / "a").write_text("1")
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".adapter.")
