"""Playing policies one after another or several at a time."""

import io
import json

import pytest

from commands import check_refused, lobra
from experiments import progress
from experiments.progress import Reporter

PLAYED = ("compare", "experiment=smoke", "policies=[task_fused,task_fused_packed,length_based]", "steps=1")


def test_several_processes_play_what_one_plays(tmp_path):
    for workers in (1, 2):
        done = lobra(*PLAYED, f"workers={workers}", f"run_dir={workers}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert sorted(line.split()[1] for line in done.stderr.splitlines()) == [
            "length_based:",
            "task_fused:",
            "task_fused_packed:",
        ]
    for file in ("directives", "trace"):
        for name in ("task_fused", "task_fused_packed", "length_based"):
            one, two = ((tmp_path / w / name / "0" / f"{file}.jsonl").read_bytes() for w in ("1", "2"))
            assert one == two
    one, two = (json.loads((tmp_path / w / "summary.json").read_text())["policies"] for w in ("1", "2"))
    assert list(one) == list(two)
    assert [body["gpu_seconds"] for body in one.values()] == [body["gpu_seconds"] for body in two.values()]


def test_a_failure_in_a_process_of_its_own_is_told_of_like_any_other(tmp_path):
    arguments = ("cost=paper", "policies=[task_fused,task_fused_packed]", "workers=2", "run_dir=OUT")
    done = lobra("compare", "experiment=smoke", "steps=1", *arguments, cwd=tmp_path)
    assert done.returncode == 4
    assert "task_fused_packed failed:" in done.stdout


def test_no_process_at_all_is_refused(tmp_path):
    check_refused(lobra(*PLAYED, "workers=0", cwd=tmp_path), 2, "workers is 0")


def test_a_part_without_a_step_is_not_told_of():
    stream = io.StringIO()
    reporter = Reporter(None, 2, stream)
    with reporter.part("failed", 3):
        pass
    with reporter.part("played", 3) as tick:
        tick()
    assert stream.getvalue().startswith("2/2 played: ")


def test_a_long_part_says_now_and_then_how_far_it_is(monkeypatch):
    seconds = iter((0.0, 1.0, 31.0, 32.0, 62.0, 63.0))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(seconds))
    stream = io.StringIO()
    with Reporter(None, 1, stream).part("lobra", 4) as tick:
        for _ in range(4):
            tick()
    assert stream.getvalue().splitlines() == [
        "1/1 lobra, step 2 of 4: 31.0 s",
        "1/1 lobra, step 4 of 4: 62.0 s",
        "1/1 lobra: 63.0 s",
    ]


def test_bars_advance_with_the_steps():
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=io.StringIO())) as bars:
        reporter = Reporter(bars, 2, io.StringIO())
        with reporter.part("played", 3) as tick:
            tick()
            tick()
        with reporter.together() as finished:
            finished("lobra", 1.0)
        assert [(task.completed, task.total) for task in bars.tasks] == [(2, 3), (1, 2)]


@pytest.mark.parametrize(("names", "workers"), [(14, 2), (5, 1), (2, 1)])
def test_processes_are_started_only_where_they_pay(monkeypatch, names, workers):
    from experiments import playing, schema

    class Asked:
        class config:  # noqa: N801  # stands in for a job's
            workers = None
            backend = schema.Sim()

        policies = dict.fromkeys(range(names))

    monkeypatch.setattr(playing.os, "sched_getaffinity", lambda _: {0, 1})
    assert playing.workers_of(Asked()) == workers
