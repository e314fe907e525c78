"""The engine of the studies: what is skipped, what is played anew, what a failure does."""

import json
import shutil

import pytest

import study_works as works
from experiments.schema import register
from experiments.study.engine import play_points
from experiments.study.point import Point
from experiments.study.results import csv_text, read_study, write_study
from lobra.errors import BadInput

SMALL = ("experiment=smoke",)


@pytest.fixture(scope="module", autouse=True)
def schemas():
    register()


def point(name, work=works.drawn, **more):
    return Point(name, SMALL, work=work, options={"name": name} | more.pop("options", {}), **more)


def played(folder, name):
    path = folder / f"played_{name}"
    return len(path.read_text()) if path.exists() else 0


def start(folder, points, *, seed=0, jobs=1):
    ended = play_points(points, folder, seed=seed, jobs=jobs)
    write_study(folder, "toy", "smoke", seed, ended)
    return ended, (folder / "study.json").read_bytes()


def test_a_second_start_skips_what_is_finished_and_gives_the_same_bytes(tmp_path):
    points = (point("a"), point("b"))
    first, before = start(tmp_path, points)
    second, after = start(tmp_path, points)
    assert [played(tmp_path, name) for name in "ab"] == [1, 1]
    assert first == second
    assert before == after


def test_another_start_elsewhere_gives_the_same_bytes_and_another_seed_others(tmp_path):
    points = (point("a"), point("b", replicate=1))
    numbers = [start(tmp_path / name, points, seed=seed)[1] for name, seed in (("x", 0), ("y", 0), ("z", 5))]
    assert numbers[0] == numbers[1]
    assert numbers[0] != numbers[2]
    values = [each["result"]["value"] for each in json.loads(numbers[0])["points"].values()]
    assert values[0] != values[1]


def test_a_point_that_fails_is_recorded_with_its_reason_and_tried_again(tmp_path):
    points = (point("bad", works.impossible), point("worse", works.not_a_number), point("good"))
    ended, _ = start(tmp_path, points)
    assert ended["bad"].reason == "nothing fits; take less"
    assert (ended["bad"].exit_code, ended["worse"].exit_code, ended["good"].exit_code) == (3, 6, 0)
    assert "Infeasible" in (tmp_path / "points" / "bad" / "log.txt").read_text()
    assert list(read_study(tmp_path, "toy")) == ["good"]
    start(tmp_path, points)
    assert played(tmp_path, "good") == 1


def test_a_point_with_a_wrong_override_fails_alone(tmp_path):
    ended, _ = start(tmp_path, (Point("bad", ("experiment=smoke", "stepz=1"), work=works.drawn), point("good")))
    assert ended["bad"].exit_code == 2
    assert "stepz" in ended["bad"].reason
    assert ended["good"].result is not None


def test_other_options_another_work_or_a_doubtful_mark_are_played_anew(tmp_path):
    start(tmp_path, (point("a"),))
    start(tmp_path, (point("a", options={"factor": 2.0}),))
    assert played(tmp_path, "a") == 2
    (tmp_path / "points" / "a" / "summary.json").write_text("{")
    start(tmp_path, (point("a", options={"factor": 2.0}),))
    assert played(tmp_path, "a") == 3


def test_a_killed_process_loses_its_point_and_the_next_start_ends_as_if_nothing_had_been(tmp_path):
    points = (point("a"), point("b", works.killed_once), point("c"))
    broken, _ = start(tmp_path / "two", points, jobs=2)
    assert broken["b"].result is None
    assert not (tmp_path / "two" / "points" / "b" / "DONE").exists()
    whole, bytes_of_two = start(tmp_path / "two", points)
    assert whole["b"].result == {"value": 1.0, "left": ["half"]}
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "was_killed").touch()
    assert bytes_of_two == start(tmp_path / "one", points)[1]


def test_an_interrupted_point_is_played_anew(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, (point("a"), point("b", works.interrupted_once)))
    ended, _ = start(tmp_path, (point("a"), point("b", works.interrupted_once)))
    assert ended["b"].result == {"value": 2.0}
    assert played(tmp_path, "a") == 1


def test_what_the_clock_said_is_kept_apart_and_given_back(tmp_path):
    start(tmp_path, (point("a"),))
    assert "wall" not in (tmp_path / "study.json").read_text()
    assert read_study(tmp_path, "toy")["a"]["wall"]["own_seconds"] == 0.5
    (tmp_path / "wall.json").unlink()
    assert set(read_study(tmp_path, "toy")["a"]) == {"value"}


def test_another_study_s_results_are_refused(tmp_path):
    start(tmp_path, (point("a"),))
    with pytest.raises(BadInput, match="expected 'fig8', got 'toy'"):
        read_study(tmp_path, "fig8")


@pytest.mark.parametrize(
    ("points", "jobs", "said"),
    [
        ((point("a"), point("a")), 1, "a stands there twice"),
        ((point("a"),), 0, "jobs is 0"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path, points, jobs, said):
    with pytest.raises(BadInput, match=said):
        play_points(points, tmp_path, seed=0, jobs=jobs)


def test_a_name_that_is_no_folder_fails_alone(tmp_path):
    ended, _ = start(tmp_path, (point("../a"),))
    assert "cannot name a folder" in ended["../a"].reason


def test_results_may_be_moved(tmp_path):
    start(tmp_path / "here", (point("a"),))
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert set(read_study(tmp_path / "there", "toy")) == {"a"}


def test_a_table_is_written_with_the_keys_of_its_first_row():
    assert csv_text([{"a": 1, "b": None}, {"a": 2.5, "b": "x"}]) == "a,b\n1,\n2.5,x\n"
    assert csv_text([]) == "\n"
