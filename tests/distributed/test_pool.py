"""The pool names who failed, and works again afterwards."""

import os
import signal
import time
from pathlib import Path

import pytest

from distributed.pool import JobFailed, Pool


def say(worker, text):
    return f"{worker.rank}: {text}"


def fail(worker, rank):
    import torch
    import torch.distributed as dist

    if worker.rank == rank:
        raise ValueError("tenant 3: adapter rank mismatch")
    dist.all_reduce(torch.zeros(4))


def die(worker, rank):
    import torch
    import torch.distributed as dist

    if worker.rank == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.zeros(4))


def hang(worker, rank):
    if worker.rank == rank:
        time.sleep(600)


HERE = "distributed.test_pool"


@pytest.fixture
def fresh():
    pool = Pool()
    yield pool
    pool.close()


def test_every_rank_answers(pool: Pool):
    assert pool.run(HERE, "say", "here") == [f"{rank}: here" for rank in range(8)]


def test_death_exception_and_silence_are_named_and_the_next_job_runs(fresh: Pool):
    expected = {
        "die": r"rank 5 died, exit code -9",
        "fail": r"rank 5 raised ValueError: tenant 3: adapter rank mismatch",
        "hang": r"ranks \[5\] gave no answer within 2.0 s",
    }
    for job, text in expected.items():
        assert len(fresh.run(HERE, "say", "here")) == 8
        pids = fresh.pids()
        start = time.monotonic()
        with pytest.raises(JobFailed, match=text):
            fresh.run(HERE, job, 5, deadline=2.0)
        assert time.monotonic() - start < 5
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
