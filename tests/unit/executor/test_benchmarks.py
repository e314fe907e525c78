"""The prepared scripts run; their figures on tiny models mean nothing."""

import csv
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)  # processes of their own, on machines that are busy with the rest of the suite

HOME = Path(__file__).parent.parent.parent.parent
ENVIRONMENT = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(*command):
    return subprocess.run(command, cwd=HOME, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=280)


def test_the_device_check_passes_its_dry_run(tmp_path):
    done = run("benchmarks/device_check.sh", "--dry-run", "--output", str(tmp_path))

    assert done.returncode == 0, done.stderr
    body = json.loads((tmp_path / "device_check.json").read_text())
    assert len(body["checks"]) == 13
    assert all(0 <= check["value"] <= check["limit"] for check in body["checks"])
    assert min(body["useful_tokens_per_second"].values()) > 0
    with (tmp_path / "layer.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["kind"] for row in rows} == {"grid", "uniform", "mixed", "padded", "tile", "adapters", "attention"}
    assert sum(row["kind"] == "grid" for row in rows) == 25 * 2
    assert sum(row["kind"] == "mixed" for row in rows) == 12 * 2
    assert all(float(row[side]) > 0 for row in rows for side in ("forward_seconds", "backward_seconds"))


def test_the_device_check_refuses_a_machine_without_a_device():
    done = run("benchmarks/device_check.sh")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "this check needs a CUDA device; try the script with --dry-run\n"


@pytest.mark.skipif(not importlib.util.find_spec("peft"), reason="the extra `peft` is not installed")
def test_the_benchmark_finds_the_same_losses_everywhere_and_ends_with_its_ratios():
    done = run(sys.executable, "benchmarks/bench_executor.py", "--small", "--repeats", "1")

    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()[-5:]] == [
        "packed / PEFT in arrival order",
        "packed / PEFT in arrival order, no mask",
        "packed / PEFT sorted",
        "packed / PEFT batch 1",
        "overhead of a packed step",
    ]
