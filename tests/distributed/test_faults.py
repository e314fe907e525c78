"""Ranks that die, raise, hang or are told to stop: one clear line, nobody left behind, nothing lost."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import small_jobs
from executor.checkpoint import newest
from executor.description import Fault
from executor.failures import Preempted, RankFailure
from executor.launch import Torchrun
from small_jobs import CROWDED, adapters, directives, execution, played, processes_of

CHECKPOINT_EVERY = 2
STEPS = 4


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The adapters of a run without any fault."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert tuple(range(STEPS)) == played(folder)
    return adapters(folder)


def disturbed(folder: Path, fault: Fault) -> tuple[Exception, float, int]:
    """A run with a fault: what it raised, seconds from the last report to then, how many reports came."""
    times = [time.monotonic()]
    job = Torchrun(folder, execution(fault)).play(directives(STEPS))
    with pytest.raises((RankFailure, Preempted)) as caught:
        times.extend(time.monotonic() for _ in job)
    return caught.value, time.monotonic() - times[-1], len(times) - 1


@pytest.mark.parametrize("fault", [Fault("kill", 1, 2, "backward"), Fault("kill", 0, 3, "synchronise")])
def test_a_killed_rank_ends_the_job_at_once_and_a_restart_gives_the_same_bits(fault, tmp_path, undisturbed):
    error, seconds, reports = disturbed(tmp_path, fault)

    assert f"rank {fault.rank} died in step {fault.step}, {fault.phase}" in str(error)
    assert "SIGKILL" in str(error)
    assert seconds < CROWDED
    assert fault.step == reports
    assert [] == processes_of(tmp_path)
    assert tuple(range(STEPS)) == played(tmp_path)
    assert undisturbed == adapters(tmp_path)


@pytest.mark.parametrize("fault", [Fault("raise", 0, 1, "forward"), Fault("raise", 1, 3, "report")])
def test_an_exception_in_a_rank_is_told_with_its_text_and_not_as_the_broken_connection_it_causes(fault, tmp_path):
    error, seconds, _ = disturbed(tmp_path, fault)

    expected = f"rank {fault.rank} raised in step {fault.step}, {fault.phase}"
    assert str(error).startswith(expected)
    assert "RuntimeError: a fault that was asked for" in str(error)
    assert seconds < CROWDED
    assert [] == processes_of(tmp_path)


@pytest.mark.parametrize(
    ("fault", "tale"),
    [(Fault("hang", 1, 1, "backward"), "rank 1 hangs in step 1"), (Fault("freeze", 0, 2, "step"), "does not answer")],
)
def test_a_rank_that_hangs_or_is_frozen_is_named_within_the_deadline(fault, tale, tmp_path):
    error, seconds, _ = disturbed(tmp_path, fault)

    assert tale in str(error)
    assert f"rank {fault.rank}" in str(error)
    assert seconds < execution().deadline_seconds + CROWDED
    assert [] == processes_of(tmp_path)
    assert "Thread 0x" in "".join(log.read_text() for log in (tmp_path / "ranks").glob("*.log"))  # stacks were dumped


@pytest.mark.parametrize("fault", [Fault("terminate", 1, 2, "forward"), Fault("terminate", 0, 1, "checkpoint")])
def test_a_stop_in_a_step_or_in_a_save_leaves_a_checkpoint_from_which_the_run_goes_on(fault, tmp_path, undisturbed):
    error, seconds, reports = disturbed(tmp_path, fault)
    checkpoint, complaints = newest(tmp_path / "checkpoints")

    assert isinstance(error, Preempted)
    assert seconds < CROWDED
    assert [] == complaints
    assert checkpoint is not None
    assert f"step-{reports:08}" == checkpoint.name  # not one reported step is lost
    assert tuple(range(STEPS)) == played(tmp_path)
    assert undisturbed == adapters(tmp_path)


def test_a_rank_killed_in_a_save_leaves_the_older_generation_and_no_torso(tmp_path, undisturbed):
    error, _, _ = disturbed(tmp_path, Fault("kill", 0, STEPS - 1, "save after 0 bytes"))
    checkpoint, _ = newest(tmp_path / "checkpoints")

    assert "rank 0 died in step 3, save" in str(error)
    assert checkpoint is not None
    assert f"step-{CHECKPOINT_EVERY:08}" == checkpoint.name
    assert tuple(range(STEPS)) == played(tmp_path)
    assert undisturbed == adapters(tmp_path)
    assert [] == list((tmp_path / "checkpoints").glob(".*"))


@pytest.fixture
def program(tmp_path):
    """A launcher in a process of its own, in the middle of its steps."""
    with subprocess.Popen(
        [sys.executable, small_jobs.__file__, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "0\n" == process.stdout.readline()
        yield process
        process.kill()


def test_a_killed_launcher_takes_its_ranks_with_it(program, tmp_path):
    program.kill()
    program.wait()
    deadline = time.monotonic() + 5
    while processes_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert [] == processes_of(tmp_path)


def test_a_launcher_that_is_told_to_stop_saves_and_says_that_it_can_go_on(program, tmp_path):
    program.send_signal(signal.SIGTERM)
    reports = 1 + len(program.communicate()[0].splitlines())
    checkpoint, _ = newest(tmp_path / "checkpoints")

    assert 5 == program.returncode
    assert checkpoint is not None
    assert f"step-{reports:08}" == checkpoint.name
    assert [] == processes_of(tmp_path)
