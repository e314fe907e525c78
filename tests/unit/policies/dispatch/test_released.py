"""The released planner's instances, through the benchmark that judges both by the released formula."""

import re
import subprocess
import sys
from pathlib import Path

RELEASED = ("--part", "released", "--repeats", "1")
BENCHMARK = Path(__file__).parents[4] / "benchmarks" / "bench_dispatch.py"


def test_on_no_released_instance_is_ours_worse(reference_data):
    ran = subprocess.run(
        [sys.executable, BENCHMARK, *RELEASED, "--reference-data", reference_data],
        capture_output=True,
        text=True,
        check=False,
    )

    *lines, _, last = ran.stdout.splitlines()
    assert (ran.returncode, last, ran.stderr) == (0, "worse: 0 of 21", "")
    assert all(float(re.search(r"ratio (\S+)", line)[1]) <= 1.001 for line in lines)


def test_a_search_without_work_is_worse_somewhere_and_the_benchmark_says_so(reference_data):
    ran = subprocess.run(
        [
            sys.executable,
            BENCHMARK,
            "--part",
            "released",
            "--reference-data",
            reference_data,
            "--repeats",
            "1",
            "--work",
            "0",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 1
    assert re.fullmatch(r"worse: [1-9]\d* of 21", ran.stdout.splitlines()[-1])
