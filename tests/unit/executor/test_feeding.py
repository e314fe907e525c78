import json
import threading
import time
from dataclasses import replace

import pytest

from executor import description
from executor.ahead import Ahead
from executor.description import Fault, knobs
from executor.failures import Outcome, as_error, death, read_outcome, root_cause, write_outcome
from executor.feed import Appender, Follower
from executor.progress import Progress, read_progress
from lobra import stream
from lobra.errors import BadInput, Infeasible
from small_jobs import directives, execution

# The run description


def test_a_frozen_description_comes_back_and_cannot_be_written(tmp_path):
    given = execution(Fault("kill", 1, 3, "forward"), threads=2)
    digest = description.freeze(tmp_path, given)
    text = (tmp_path / "run.json").read_text()

    assert given == description.load(tmp_path)
    assert digest == json.loads(text)["sha256"]
    assert 0o444 == (tmp_path / "run.json").stat().st_mode & 0o777


def test_a_description_that_was_changed_after_freezing_is_refused(tmp_path):
    description.freeze(tmp_path, execution())
    path = tmp_path / "run.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"threads": 1', '"threads": 2'))

    with pytest.raises(BadInput, match=r"run.json: its sha256 does not match"):
        description.load(tmp_path)


def test_only_what_decides_numbers_decides_whether_a_run_may_go_on():
    given = execution()

    assert given.numerics() == replace(given, ranks=8, deadline_seconds=99.0).numerics()
    assert given.numerics() != replace(given, settings=knobs({"dtype": "float32"})).numerics()
    assert given.numerics() != replace(given, data=knobs({"kind": "synthetic", "seed": 1})).numerics()


# Which of many tales is the cause


def tale(kind, rank=0, at=0.0, message="", phase="step 3, forward"):
    return Outcome(rank, kind, phase, message, at)


def test_a_death_explains_the_connections_it_breaks():
    assert 2 == root_cause([tale("lost peer", 0, 1.0), tale("died", 2, 2.0), tale("waiting", 1, 0.5)]).rank


def test_of_two_equal_causes_the_earlier_one_is_told():
    assert 1 == root_cause([tale("raised", 0, 2.0), tale("raised", 1, 1.0)]).rank


def test_a_rank_that_does_not_answer_explains_those_who_wait_for_it():
    assert 3 == root_cause([tale("waiting", 0), tale("waiting", 1), tale("silent", 3)]).rank


def test_errors_are_one_line_and_of_the_kind_that_their_exit_code_says():
    assert "rank 0 raised in step 3, forward: a b" == str(as_error(tale("raised", message="a\nb")))
    assert isinstance(as_error(tale("input", message="tenant 'x': no")), BadInput)
    assert isinstance(as_error(tale("infeasible")), Infeasible)


def test_an_exit_status_is_told_in_words():
    assert "killed by signal 9 (SIGKILL)" == death(-9)
    assert "it ended with exit code 3 and left no word" == death(3)


def test_words_that_a_rank_leaves_can_be_read_and_torn_ones_cannot(tmp_path):
    write_outcome(tmp_path, tale("hung", 4, 1.5, "no progress"))
    (tmp_path / "rank-5.outcome.json").write_text('{"rank": 5, "ki')

    assert tale("hung", 4, 1.5, "no progress") == read_outcome(tmp_path, 4)
    assert read_outcome(tmp_path, 5) is None
    assert read_outcome(tmp_path, 6) is None


def test_where_a_rank_stands_can_be_read_from_outside(tmp_path):
    Progress(tmp_path, 2).write("step 3, backward of micro-batch 1")

    assert "step 3, backward of micro-batch 1" == read_progress(tmp_path, 2)
    assert "start-up" == read_progress(tmp_path, 3)


# Streams


def test_a_follower_sees_whole_lines_only(tmp_path):
    path = tmp_path / "x.jsonl"
    with Follower(path) as follower:
        assert follower.line() is None
        with path.open("wb", buffering=0) as file:
            file.write(b"one\ntw")
            assert (b"one", None) == (follower.line(), follower.line())
            file.write(b"o\nend\n")
            assert (b"two", None, True) == (follower.line(), follower.line(), follower.ended)


def test_a_finished_feed_is_a_stream_like_any_other(tmp_path):
    feed = Appender(tmp_path / "directives.jsonl", durable=True, fresh=True)
    for directive in directives(2):
        feed.append(directive)
    feed.finish()
    feed.close()

    assert list(directives(2)) == list(stream.read(tmp_path / "directives.jsonl"))


def test_a_line_that_cannot_be_read_is_named_with_file_and_number(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"schema": 1}\n')
    with Follower(tmp_path / "x.jsonl") as follower, pytest.raises(BadInput, match=r"x.jsonl, line 1: \$"):
        follower.noun()


# Planning one step ahead


def taken(ahead, seconds=5.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        directive = ahead.take()
        if directive is not None or ahead.ended:
            return directive
        time.sleep(0.001)
    raise AssertionError("nothing came")


def test_a_step_is_planned_only_with_permission_and_in_another_thread():
    made, threads = [], set()

    def planner():
        for directive in directives(4):
            made.append(directive)
            threads.add(threading.get_ident())
            yield directive

    ahead = Ahead(planner())
    assert 2 == len(ahead.prelude())
    ahead.start()
    time.sleep(0.05)
    assert 2 == len(made)
    ahead.permit()
    assert 1 == taken(ahead).step
    time.sleep(0.05)
    assert 3 == len(made)
    assert 2 == len(threads)


def test_what_the_planner_raises_is_raised_where_its_plan_is_awaited():
    def planner():
        yield from directives(1)
        raise Infeasible("tenant 'a': nothing holds it")

    ahead = Ahead(planner())
    ahead.prelude()
    ahead.start()
    ahead.permit()
    with pytest.raises(Infeasible, match="nothing holds it"):
        taken(ahead)
