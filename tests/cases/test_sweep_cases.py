"""Sweeps: faults that users of Hydra met, kept out here."""

import copy
import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from commands import HOME, check_refused, lobra
from experiments.job import Done, evidence
from experiments.ledger import exit_code, write_ledger
from experiments.rundir import digest, pretty
from experiments.schema import OwnWorkload, register
from experiments.sweep import Place, new_start, records_of, run_point
from lobra.errors import Infeasible
from lobra.files import write_atomically

SWEEP = ("plan", "task_fused", "experiment=smoke", "-m", "run_dir=SWEEP")


@pytest.fixture(scope="module")
def smoke():
    """The configuration that the points of a sweep change."""
    register()
    with initialize_config_module("conf", version_base="1.3"):
        return compose("plan", overrides=["policy=task_fused", "experiment=smoke"])


@pytest.fixture
def sweep(tmp_path, smoke):
    """Plays the launcher without Hydra's seconds: a point for each change of the configuration; the exit code."""

    def start(*changes: dict, work) -> int:
        folder = new_start(tmp_path / "SWEEP")
        try:
            for number, change in enumerate(changes):
                config = copy.deepcopy(smoke)
                for key, value in change.items():
                    OmegaConf.update(config, key, value)
                place = Place(
                    tmp_path / "SWEEP", folder / "jobs" / str(number), number, {k: str(v) for k, v in change.items()}
                )
                run_point(place, "plan", config, work)
        finally:
            rows = write_ledger(folder, "plan", records_of(folder))["rows"]
        return exit_code(rows)

    return start


def points(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "SWEEP").iterdir() if path.name != "sweeps")


def table(folder: Path, start: int = 0) -> list[dict[str, str]]:
    with (folder / "SWEEP" / "sweeps" / f"{start:04d}" / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def contents(point: Path) -> dict[str, str]:
    files = (path for path in point.rglob("*") if path.is_file())
    return {str(path.relative_to(point)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class Worker:
    """Stands in for a verb: what it is asked for decides what comes of it."""

    def __init__(self):
        self.calls = []

    def __call__(self, job, folder):
        self.calls.append(job.config.seed)
        if job.config.cluster.nodes == 3:
            raise Infeasible("three nodes will not do")
        if job.config.cluster.nodes == 5:
            raise ZeroDivisionError
        if job.config.seed == 99:
            raise KeyboardInterrupt
        write_atomically(folder / "summary.json", pretty({"schema": 1, "policies": {}}))
        cost = 10.0 * job.config.cluster.nodes
        return Done(0, cost, {"task_fused.gpu_seconds": cost})


def test_a_sweep_of_two_values_makes_exactly_two_directories_each_with_its_configuration_once(tmp_path):
    """hydra#2070, Lightning#2727, PR#11617: one directory a point, saved once, none beside them."""
    compare = ("compare", "experiment=smoke", "policies=[task_fused]", "-m", "run_dir=SWEEP")
    done = lobra(*compare, "seed=1,2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["SWEEP"]
    assert len(points(tmp_path)) == 2
    seeds = {json.loads((point / "run.json").read_text())["seed"] for point in points(tmp_path)}
    assert seeds == {1, 2}
    assert {row["point"] for row in table(tmp_path)} == {point.name for point in points(tmp_path)}


def test_a_point_that_fails_has_its_own_log_and_the_others_go_on(tmp_path):
    """hydra#2284, PR#3227, #2824: divisor=1,0,2, here as nodes."""
    done = lobra(*SWEEP, "cluster.nodes=1,0,2", cwd=tmp_path)
    assert done.returncode == 4
    assert [row["status"] for row in table(tmp_path)] == ["done", "failed", "done"]
    failed = tmp_path / "SWEEP" / table(tmp_path)[1]["point"]
    assert "Traceback" in (failed / "log.txt").read_text()
    assert "cluster.nodes is 0" in (failed / "log.txt").read_text()
    assert "cluster.nodes is 0; a cluster needs at least 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (failed / "DONE").exists()


def test_with_fail_fast_nothing_runs_after_a_failure(tmp_path, sweep):
    """hydra#2284: the wish for fail-fast."""
    work = Worker()
    changes = [{"cluster.nodes": nodes, "fail_fast": True} for nodes in (1, 3, 2)]
    assert sweep(*changes, work=work) == 4
    assert [row["status"] for row in table(tmp_path)] == ["done", "failed", "left_out"]
    assert len(work.calls) == 2


def test_finished_points_are_skipped_with_a_line_that_says_so(tmp_path):
    """hydra#3328, #1407: a sweep that is started again does nothing twice and renumbers nothing."""
    assert lobra(*SWEEP, "seed=1", cwd=tmp_path).returncode == 0
    before = {point.name: contents(point) for point in points(tmp_path)}
    done = lobra(*SWEEP, "seed=1,2", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("finished before, skipped") == 1
    assert [row["status"] for row in table(tmp_path, 1)] == ["skipped", "done"]
    assert {name: contents(tmp_path / "SWEEP" / name) for name in before} == before


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path, sweep):
    """hydra#3328: 4 jobs, stopped after 2, started again: 4 results, the first two untouched."""
    work = Worker()
    with pytest.raises(KeyboardInterrupt):
        sweep(*({"seed": seed} for seed in (1, 2, 99, 4)), work=work)
    finished = {p.name: contents(p) for p in points(tmp_path) if (p / "DONE").exists()}
    assert len(finished) == 2
    assert [row["status"] for row in table(tmp_path)] == ["done", "done", "interrupted"]
    assert sweep(*({"seed": seed} for seed in (1, 2, 3, 4)), work=work) == 0
    assert work.calls == [1, 2, 99, 3, 4]
    assert {name: contents(tmp_path / "SWEEP" / name) for name in finished} == finished


def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    """hydra#3328: the same with SIGKILL, in processes of their own."""
    command = [sys.executable, "-m", "experiments.cli", *SWEEP, "seed=range(1,5)", "cluster.nodes=1"]
    environment = os.environ | {"PYTHONPATH": str(HOME)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as run:
        for _ in range(2400):  # two minutes: other work may share the cores
            if len(list(tmp_path.glob("SWEEP/*/DONE"))) >= 2:
                break
            time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
    finished = {mark.parent.name: contents(mark.parent) for mark in tmp_path.glob("SWEEP/*/DONE")}
    assert 2 <= len(finished) < 4
    done = lobra(*SWEEP, "seed=range(1,5)", "cluster.nodes=1", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("finished before, skipped") == len(finished)
    assert len(list(tmp_path.glob("SWEEP/*/DONE"))) == 4
    assert {name: contents(tmp_path / "SWEEP" / name) for name in finished} == finished


def test_a_mark_without_its_result_is_not_believed(tmp_path, sweep):
    """hydra#3328: half a result is none."""
    work = Worker()
    sweep({"seed": 1}, work=work)
    (point,) = points(tmp_path)
    for name, text in (("summary.json", "{"), ("DONE", '{"schema": 1, "config_hash": "other"}')):
        (point / name).write_text(text)
        assert sweep({"seed": 1}, work=work) == 0
    assert work.calls == [1, 1, 1]


def test_two_starts_in_one_second_never_share_a_directory(tmp_path, sweep):
    """hydra#3328, #1407: and a changed base configuration never meets results of another."""
    work = Worker()
    for change in ({"seed": 1}, {"seed": 1}, {"seed": 1, "steps": 7}):
        sweep(change, work=work)
    assert [path.name for path in sorted((tmp_path / "SWEEP" / "sweeps").iterdir())] == ["0000", "0001", "0002"]
    assert len(points(tmp_path)) == 2
    assert len(work.calls) == 2


def test_a_number_in_scientific_notation_is_swept_as_a_number(tmp_path):
    """hydra#1185 and others: 3e-4 read as text by plain YAML."""
    assert lobra(*SWEEP, "backend.planning_seconds=3e-4,0.0003", cwd=tmp_path).returncode == 0
    (point,) = points(tmp_path)
    config = json.loads((point / "run.json").read_text())["config"]
    assert config["backend"]["planning_seconds"] == 0.0003
    assert table(tmp_path)[1]["duplicate_of"] == "0"


@pytest.mark.parametrize(
    ("override", "said"), [("cluster.node=1,2", "did you mean cluster.nodes?"), ("cluster.nodes=1,two", "whole number")]
)
def test_a_mistake_in_a_sweep_stops_it_before_it_begins(tmp_path, override, said):
    """h2o-llmstudio PR#699, unsloth PR#10452: mistyped keys ignored."""
    check_refused(lobra(*SWEEP, override, cwd=tmp_path), 2, override.partition("=")[0], said)
    assert list((tmp_path / "SWEEP" / "sweeps").iterdir()) == []


def test_a_mistyped_key_of_a_users_file_is_named_and_a_number_is_never_taken_for_text(tmp_path):
    """hydra#1185, Soup#627: job files too; YAML 1.1 reads 3e-4 as text."""
    text = "tenants:\n- {name: one, batch_size: 2, context_limit: 64, lengths: one.csv, learning_rate: %s, %s: 8}\n"
    (tmp_path / "one.csv").write_text("tokens\n5\n6\n")
    own = ("plan", "task_fused", "workload=own", "workload.file=own.yaml", "run_dir=P")
    (tmp_path / "own.yaml").write_text(text % ("3e-4", "rnak"))
    check_refused(lobra(*own, cwd=tmp_path), 2, "rank")
    (tmp_path / "own.yaml").write_text(text % ("3e-4", "rank"))
    assert lobra(*own, cwd=tmp_path).returncode == 0
    plan = json.loads((tmp_path / "P" / "0" / "directives.jsonl").read_text().splitlines()[0])
    (tenant,) = plan["body"]["tenants"]
    assert (tenant["learning_rate"], tenant["rank"]) == (0.0003, 8)


def test_every_point_has_a_row_and_means_are_over_successes_alone(tmp_path, sweep):
    """kaappi PR#1579, das-research PR#27, stochss PR#1110, hydra#1969: failed cells vanish or become numbers."""
    work = Worker()
    assert sweep(*({"cluster.nodes": nodes} for nodes in (1, 1, 3)), work=work) == 4
    ledger = json.loads((tmp_path / "SWEEP" / "sweeps" / "0000" / "sweep.json").read_text())
    assert (ledger["ok"], ledger["total"], ledger["mean_objective"], ledger["duplicates"]) == (2, 3, 10.0, 1)
    rows = table(tmp_path)
    assert [row["status"] for row in rows] == ["done", "skipped", "failed"]
    assert [row["duplicate_of"] for row in rows] == ["", "0", ""]
    assert [row["objective"] for row in rows] == ["10.0", "10.0", ""]
    assert rows[2]["reason"] == "three nodes will not do"
    assert len(work.calls) == 2


@pytest.mark.parametrize(("nodes", "code"), [([3], 3), ([5], 6), ([3, 5], 3)])
def test_a_sweep_of_which_nothing_succeeds_ends_with_the_code_of_its_failure(tmp_path, sweep, nodes, code):
    """stochss PR#1110: an all-failed sweep looked fine."""
    assert sweep(*({"cluster.nodes": number} for number in nodes), work=Worker()) == code
    ledger = json.loads((tmp_path / "SWEEP" / "sweeps" / "0000" / "sweep.json").read_text())
    assert (ledger["ok"], ledger["mean_objective"]) == (0, None)


def test_a_job_that_was_killed_has_a_row(tmp_path):
    """das-research PR#27: cells whose process died vanish from the table."""
    (tmp_path / "jobs" / "0").mkdir(parents=True)
    (row,) = write_ledger(tmp_path, "run", records_of(tmp_path))["rows"]
    assert (row["status"], row["exit_code"], row["reason"]) == ("failed", 6, "it was killed")
    assert exit_code([row]) == 6


def test_a_changed_data_file_makes_another_name(tmp_path):
    """hydra#1407: a result must not be taken for that of other data."""
    (tmp_path / "own.yaml").write_text("tenants:\n- {name: a, batch_size: 2, context_limit: 64, lengths: a.csv}\n")
    workload, names = OwnWorkload(file=str(tmp_path / "own.yaml")), []
    for rows in ("5\n6\n", "5\n6\n", "5\n7\n"):
        (tmp_path / "a.csv").write_text("tokens\n" + rows)
        names.append(digest("plan", {}, evidence(workload)))
    assert names[0] == names[1] != names[2]


def test_a_sweep_never_shares_its_root_by_accident(tmp_path):
    """hydra#1407: the root itself cannot be swept, and what does not sweep says so."""
    swept = [argument for argument in SWEEP if not argument.startswith("run_dir")]
    check_refused(lobra(*swept, "run_dir=A,B", cwd=tmp_path), 2, "run_dir: it cannot be swept")
    check_refused(lobra("doctor", "-m", cwd=tmp_path), 2, "doctor does not sweep")


def test_text_of_a_sweep_is_no_formula_in_a_spreadsheet(tmp_path):
    """A cell that begins with = is run by spreadsheets."""
    write_ledger(tmp_path, "run", [{"number": 0, "status": "failed", "reason": "=cmd()", "overrides": {"a": "-1"}}])
    (row,) = list(csv.DictReader((tmp_path / "sweep.csv").open(newline="")))
    assert (row["reason"], row["a"]) == ("'=cmd()", "'-1")
