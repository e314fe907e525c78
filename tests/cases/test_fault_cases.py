"""Checkpoints, resumption, ranks that leave: what users of other systems ran into."""

import sys
import time
from dataclasses import replace

import pytest

from executor import manifest
from executor.checkpoint import newest
from executor.crew import RANKS, Crew
from executor.description import Fault, knobs
from executor.failures import Preempted, RankFailure
from executor.launch import Torchrun
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef
from small_jobs import CROWDED, PAIR, A, B, adapters, execution, plan, processes_of, step

TENANTS = (
    replace(A, schedule="cosine", warmup_steps=2, clip_norm=0.5, weight_decay=0.1),
    replace(B, schedule="linear", dropout=0.2),
)
SETTINGS = knobs({"dtype": "float64", "total_updates": 6})


def job(folder, *faults):
    return Torchrun(folder, replace(execution(*faults, checkpoint_steps=0), settings=SETTINGS))


def six_steps():
    deployed = plan(*PAIR, tenants=TENANTS)
    yield deployed
    yield from (step(number, deployed) for number in range(6))


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Six steps without a break."""
    folder = tmp_path_factory.mktemp("straight")
    list(job(folder).play(six_steps()))
    return folder


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """Three steps, a stop, three more."""
    folder = tmp_path_factory.mktemp("resumed")
    with pytest.raises(Preempted):
        list(job(folder, Fault("terminate", 1, 2, "report")).play(six_steps()))
    assert "step-00000003" == newest(folder / "checkpoints")[0].name
    assert [0, 1, 2, 3, 4, 5] == [report.step for report in job(folder).play(six_steps())]
    return folder


def last_checkpoint(folder):
    place, complaints = newest(folder / "checkpoints")
    assert [] == complaints
    return manifest.verify(place)


def test_three_steps_a_break_and_three_more_equal_six_in_every_bit(straight, resumed):
    """huggingface/diffusers#12689: weights, both Adam moments, the schedule's place, dropout."""
    assert last_checkpoint(straight).files == last_checkpoint(resumed).files
    assert adapters(straight) == adapters(resumed)


def test_after_a_break_the_next_step_trains_on_the_sequences_it_would_have_had(straight, resumed):
    """huggingface/accelerate PR#4071: the cursors hash the ids of every step in order."""
    assert last_checkpoint(straight).cursors == last_checkpoint(resumed).cursors
    assert 12 == last_checkpoint(resumed).cursors["a"].sequences


def test_ranks_with_different_numbers_of_micro_batches_finish_together(tmp_path):
    """verl-project/verl#6176, #6178: two on one rank, one on the other, then none."""
    deployed = plan(*PAIR, tenants=(A,))

    def long(index):
        return MicroBatch(((SequenceRef(0, index, 180, 180),),), 200)

    def directives():
        yield deployed
        yield StepPlan(
            0, ((long(0), long(1)), (MicroBatch(((SequenceRef(0, 2, 15, 15), SequenceRef(0, 3, 9, 9)),), 24),))
        )
        yield StepPlan(1, ((long(4), long(5)), ()))

    reports = list(Torchrun(tmp_path, execution()).play(directives()))

    assert [(424, 384), (400, 360)] == [(report.tokens, report.useful_tokens) for report in reports]


def test_a_rank_that_leaves_without_a_word_is_named_and_the_others_do_not_wait(tmp_path):
    """pytorch/pytorch#138322, #97191, #101463: exit code 3 before the reduction."""
    times: list[float] = []
    reports = job(tmp_path, Fault("exit", 1, 1, "synchronise")).play(six_steps())
    with pytest.raises(RankFailure, match=r"^rank 1 died in step 1, synchronise: it ended with exit code 3"):
        times.extend(time.monotonic() for _ in reports)

    assert 1 == len(times)
    assert time.monotonic() - times[0] < CROWDED
    assert [] == processes_of(tmp_path)


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.fork()
print("ready", flush=True)
time.sleep(600)
"""


def test_nobody_survives_the_end_of_a_job_who_ignores_a_wish_or_is_a_grandchild(tmp_path):
    """pytorch/pytorch PR#115219, #113231."""
    (tmp_path / RANKS).mkdir()
    crew = Crew(tmp_path, 1)
    crew.start_agent([sys.executable, "-c", STUBBORN, str(tmp_path)], threads=1)
    deadline = time.monotonic() + 20
    while len(processes_of(tmp_path)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    before = len(processes_of(tmp_path))
    crew.terminate()
    time.sleep(0.1)
    survivors = len(processes_of(tmp_path))
    crew.end()
    time.sleep(0.1)

    assert (3, 3, 0) == (before, survivors, len(processes_of(tmp_path)))
