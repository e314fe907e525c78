"""Policies that flush nothing, from the command line: many step plans a batch, one figure a step."""

import json
from itertools import groupby

import pytest

from commands import check_refused, lobra
from lobra import stream
from lobra.trace import StepReport

NAMES = ("task_fused_packed", "lorafusion_like", "mlora_like")
SMALL = ("experiment=smoke", "workload.max_length=2048", "steps=3")


@pytest.fixture(scope="module", params=["1,4x2", "2,1x4"])
def compared(request, tmp_path_factory):
    """Two pipelines of four stages, and four replicas without stages."""
    folder = tmp_path_factory.mktemp("compared")
    done = lobra(
        "compare", *SMALL, f"policies=[{','.join(NAMES)}]", f"plans='{request.param}'", "run_dir=OUT", cwd=folder
    )
    return folder / "OUT", done


def test_they_stand_in_the_table_beside_a_flushed_policy(compared):
    folder, done = compared
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:5]] == list(NAMES)
    figures = json.loads((folder / "summary.json").read_text())["policies"]
    assert {len(figures[name]["gpu_seconds_per_step"]) for name in NAMES} == {3}
    assert len({figures[name]["status"] for name in NAMES}) == 1
    assert len({tuple(figures[name]["notes"]) for name in NAMES}) == 1
    assert len({tuple(figures[name]["plan_summaries"]) for name in NAMES}) == 1
    assert all(0 <= figures[name]["idle"] < 1 for name in NAMES)


def test_every_step_plan_has_a_report_and_a_steps_reports_add_up(compared):
    folder, _ = compared
    figures = json.loads((folder / "summary.json").read_text())["policies"]
    for name in NAMES[1:]:
        reports = list(stream.read(folder / name / "0" / "trace.jsonl"))
        assert all(isinstance(report, StepReport) for report in reports)
        assert len(reports) == len(list(stream.read(folder / name / "0" / "directives.jsonl"))) - 1 >= 3
        sums = [sum(part.gpu_seconds for part in parts) for _, parts in groupby(reports, lambda report: report.step)]
        assert sums == pytest.approx(figures[name]["gpu_seconds_per_step"], rel=1e-12)


def test_all_train_the_same_tokens(compared):
    folder, _ = compared
    useful = [
        sum(report.useful_tokens for report in stream.read(folder / name / "0" / "trace.jsonl")) for name in NAMES
    ]
    assert len(set(useful)) == 1


def test_a_step_is_drawn_and_exported_whole(compared):
    folder, _ = compared
    done = lobra("figure", "timeline", f"run={folder / 'lorafusion_like'}", "step=2", cwd=folder)
    assert done.returncode == 0, done.stderr
    check_refused(
        lobra("figure", "timeline", f"run={folder / 'lorafusion_like'}", "step=3", cwd=folder), 2, "fewer steps"
    )
    done = lobra("export", f"run={folder / 'mlora_like'}", "format=chrome", "first=1", "steps=1", cwd=folder)
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "mlora_like").glob("*.json")
    events = json.loads(file.read_text())["traceEvents"]
    assert {event["args"]["step"] for event in events if event["ph"] == "X"} == {1}


def test_knobs_of_an_order_are_checked(tmp_path):
    run = ("run", "policy=lorafusion_like", *SMALL)
    check_refused(lobra(*run, "policy.order.window=0", cwd=tmp_path), 2, "order: window is 0")
    check_refused(lobra(*run, "policy.order.windows=2", cwd=tmp_path), 2, "policy.order.windows")


def test_real_ranks_refuse_an_undrained_pipeline_by_name(tmp_path):
    arguments = ("backend=torch", "experiment=demo_executor", "policy=mlora_like", "plans='1,2x2'", "run_dir=OUT")
    done = lobra("run", *arguments, cwd=tmp_path)
    check_refused(done, 2, "step 0: drain is false; the executor empties its pipelines between step plans")
    assert not (tmp_path / "OUT" / "0" / "job").exists()


def test_a_cost_form_without_packs_is_refused_by_name(tmp_path):
    done = lobra("run", "policy=mlora_like", "cost=paper", "plans='8,1x1'", *SMALL, cwd=tmp_path)
    check_refused(done, 2, "no price for packs")
