"""The command line from outside: what it prints, what it leaves, how it ends."""

import json
import sys

import pytest

from commands import check_refused, lobra, lobra_process

ONE = "policies=[task_fused]"
SMOKE = ("experiment=smoke", "policies=[task_fused,lobra]")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A small comparison, done once."""
    folder = tmp_path_factory.mktemp("compared")
    return folder, lobra("compare", *SMOKE, "run_dir=OUT", cwd=folder)


def test_a_comparison_prints_its_table_and_names_its_files(compared):
    folder, done = compared
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:4]] == ["task_fused", "lobra"]
    for name in ("summary.json", "compare.png", "lobra.perfetto.json"):
        assert f"wrote OUT/{name}" in done.stdout
        assert (folder / "OUT" / name).stat().st_size > 500


def test_a_comparison_leaves_nothing_outside_its_run_directory(compared):
    folder, _ = compared
    assert [path.name for path in folder.iterdir()] == ["OUT"]


def test_progress_is_told_line_by_line_where_there_is_no_terminal(compared):
    _, done = compared
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["1/2 task_fused", "2/2 lobra"]


def test_a_summary_holds_the_figures_that_were_promised(compared):
    folder, _ = compared
    summary = json.loads((folder / "OUT" / "summary.json").read_text())
    assert (summary["schema"], summary["baseline"]) == (1, "task_fused")
    for figures in summary["policies"].values():
        low, high = figures["interval"]
        assert low <= figures["gpu_seconds"] <= high
        for key in ("reduction", "padding", "idle", "dispatch_seconds", "planning_seconds", "step_seconds"):
            assert isinstance(figures[key], float)
        (plan,) = figures["plans"]
        assert {"tp", "pp", "recompute", "budget", "count"} == set(plan[0])
        assert sum(row["tp"] * row["pp"] * row["count"] for row in plan) <= 8


def test_the_same_command_gives_the_same_bytes_whatever_the_hash_seed(compared, tmp_path):
    folder, _ = compared
    assert lobra_process("compare", *SMOKE, "run_dir=OUT", cwd=tmp_path, PYTHONHASHSEED="7").returncode == 0
    names = [f"{policy}/0/{file}.jsonl" for policy in ("task_fused", "lobra") for file in ("directives", "trace")]
    for name in (*names, "lobra.perfetto.json"):
        assert (folder / "OUT" / name).read_bytes() == (tmp_path / "OUT" / name).read_bytes()


def test_results_are_drawn_and_exported_by_name(compared):
    folder, _ = compared
    for arguments, file in (
        (("figure", "compare", "run=OUT", "format=svg"), "OUT/compare.svg"),
        (("figure", "timeline", "run=OUT/lobra", "step=1"), "OUT/lobra/timeline.png"),
        (("export", "OUT/lobra", "format=parquet"), "OUT/lobra/spans.parquet"),
    ):
        done = lobra(*arguments, cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"wrote {file}" in done.stdout
        (folder / file).unlink()


def test_one_policy_runs_into_a_directory_named_by_its_configuration(tmp_path):
    done = lobra("run", "lobra", "experiment=smoke", "policy/dispatch=uniform", "steps=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs" / "run").iterdir()
    described = json.loads((folder / "run.json").read_text())
    assert described["config_hash"] == folder.name
    assert described["config"]["policy"]["dispatch"] == {"kind": "uniform"}


def test_a_plan_comes_with_its_certificate(tmp_path):
    done = lobra("plan", "lobra", "experiment=smoke", "run_dir=P", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (group,) = json.loads((tmp_path / "P" / "summary.json").read_text())["groups"]
    assert group["summary"] in done.stdout
    assert group["certificate"]["bound_seconds"] <= group["certificate"]["expected_seconds"] * 1.001


def test_the_configuration_can_be_shown_without_running_it(tmp_path):
    done = lobra("compare", "experiment=smoke", "--cfg", "job", cwd=tmp_path)
    assert done.returncode == 0
    assert "name: lobra6" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_help_lists_the_verbs_and_each_verb_its_groups(tmp_path):
    assert "compare  many policies side by side" in lobra("--help", cwd=tmp_path).stdout
    text = lobra("run", "--help", cwd=tmp_path).stdout
    assert "policy/dispatch: balanced, balanced_packed, cheapest, flexible, packed_pipeline, shared, uniform" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "cluster.node=4"), ("cluster.node:", "did you mean cluster.nodes?")),
        (("compare", "cluster.nodes=abc"), ("cluster.nodes is 'abc'", "whole number")),
        (("compare", "cluster.nodes=0", ONE), ("cluster.nodes is 0", "at least 1")),
        (("compare", "steps=0", ONE), ("steps is 0", "at least 1")),
        (("compare", "policies=[lobr]"), ("policies:", "did you mean lobra?")),
        (("compare", "seed=${oc.env:HOME}"), ("seed: interpolations",)),
        (("compare", "workload=own", ONE), ("workload.file", "give workload.file=VALUE")),
        (("compare", "workload=own", "workload.file=nothing.yaml", ONE), ("workload.file: nothing.yaml is no file",)),
        (("compair",), ("there is no verb 'compair'",)),
        (("figure", "compare", "run=nothing"), ("nothing/summary.json", "cannot be read")),
    ],
)
def test_bad_input_gets_one_clear_line(tmp_path, arguments, said):
    check_refused(lobra(*arguments, cwd=tmp_path), 2, *said)
    assert not any(path.suffix == ".log" or path.name in ("outputs", "multirun") for path in tmp_path.iterdir())


def test_a_refusal_is_one_line_in_a_process_of_its_own_too(tmp_path):
    check_refused(lobra_process("compare", "cluster.node=4", cwd=tmp_path), 2, "cluster.node", "cluster.nodes")


OWN = "tenants:\n- {name: one, batch_size: 4, context_limit: 4096, lengths: one.csv}\n"


@pytest.mark.parametrize(
    ("tenants", "lengths", "said"),
    [
        (OWN, "tokens\n", ("one",)),
        (OWN + "- {name: ONE, batch_size: 4, context_limit: 4096, lengths: one.csv}\n", "tokens\n5\n", ("ONE",)),
        (OWN + "- {name: one, batch_size: 4, context_limit: 4096, lengths: one.csv}\n", "tokens\n5\n", ("one",)),
        (OWN.replace("batch_size", "batch_siez"), "tokens\n5\n", ("batch_siez", "batch_size")),
        ("tenants: []\n", "tokens\n5\n", ("tenants",)),
    ],
    ids=["empty tenant", "names that differ by case", "the same name twice", "unknown key", "no tenant"],
)
def test_tenants_that_are_wrong_get_one_clear_line(tmp_path, tenants, lengths, said):
    (tmp_path / "own.yaml").write_text(tenants)
    (tmp_path / "one.csv").write_text(lengths)
    check_refused(
        lobra("compare", "workload=own", "workload.file=own.yaml", ONE, "run_dir=OUT", cwd=tmp_path), 2, *said
    )


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("summary.json", lambda text: text[:100], "not JSON"),
        ("summary.json", lambda text: text.replace('"schema": 1', '"schema": 9', 1), "$.schema: expected 1, got 9"),
        ("lobra/0/trace.jsonl", lambda text: text.replace('"schema":1', '"schema":2', 1), "line 1: $.schema"),
        ("lobra/0/trace.jsonl", lambda text: text.replace('"seconds":', '"seconds":NaN,"x":', 1), "line 1: not strict"),
        ("lobra/0/directives.jsonl", lambda text: text.replace('"tp":', '"tq":', 1), "line 1: $.body"),
    ],
)
def test_a_corrupt_file_is_named_with_the_place_of_its_fault(compared, file, change, said):
    folder, _ = compared
    path = folder / "OUT" / file
    sound = path.read_text()
    path.write_text(change(sound))
    try:
        verb = ("figure", "compare", "run=OUT") if file == "summary.json" else ("export", "OUT/lobra")
        check_refused(lobra(*verb, cwd=folder), 2, file, said)
    finally:
        path.write_text(sound)


def test_a_sequence_longer_than_any_replica_holds_is_infeasible(tmp_path):
    text = "tenants:\n- {name: endless, batch_size: 4, context_limit: 100000, lengths: one.csv}\n"
    (tmp_path / "own.yaml").write_text(text)
    (tmp_path / "one.csv").write_text("tokens\n" + "100\n" * 9 + "90000\n")
    arguments = ("workload=own", "workload.file=own.yaml", ONE, "run_dir=OUT")
    check_refused(lobra("compare", *arguments, cwd=tmp_path), 3, "endless", "100000", "16384")


def test_a_model_too_large_for_the_cluster_is_infeasible_and_the_smallest_that_would_do_is_named(tmp_path):
    arguments = (
        "model=llama2_70b",
        "cluster.nodes=1",
        "cluster.gpus_per_node=1",
        "policies=[task_fused]",
        "run_dir=OUT",
    )
    check_refused(lobra("compare", *arguments, cwd=tmp_path), 3, "llama2_70b", "GPUs")


def test_one_policy_that_cannot_be_played_does_not_stop_the_others(tmp_path):
    arguments = ("cost=paper", "policies=[task_fused,task_fused_packed]", "steps=2", "run_dir=OUT")
    done = lobra("compare", "experiment=smoke", *arguments, cwd=tmp_path)
    assert done.returncode == 4
    policies = json.loads((tmp_path / "OUT" / "summary.json").read_text())["policies"]
    assert policies["task_fused_packed"]["exit_code"] == 2
    assert policies["task_fused"]["gpu_seconds"] > 0
    assert "task_fused_packed failed:" in done.stdout


def test_a_fault_of_ours_shows_its_traceback_and_ends_with_6(tmp_path, monkeypatch, capsys):
    from experiments import cli, front

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(front, "run_verb", broken)
    monkeypatch.setattr(sys, "argv", ["lobra", "compare"])
    assert cli.main() == 6
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_doctor_says_what_is_installed(tmp_path):
    done = lobra("doctor", cwd=tmp_path)
    assert done.returncode == 0
    for what in (
        "hydra-core",
        "solver highs",
        "cores",
        "memory",
        "thread settings",
        "gloo (ranks on CPUs)",
        "GPU memory",
    ):
        assert f"\n{what} " in done.stdout
