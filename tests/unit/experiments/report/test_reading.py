"""Run directories as answers, and the verb: one clear line for what is no answer."""

import json

import pytest

import report_answers
from commands import check_refused, lobra
from experiments.report.reading import read_answer
from experiments.rundir import pretty
from lobra.errors import BadInput


def written(folder, body):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(body if isinstance(body, str) else pretty(body), encoding="utf-8")
    return folder


@pytest.fixture
def run(tmp_path):
    return written(tmp_path / "run", report_answers.answer().as_dict())


def test_an_answer_comes_back_as_it_was_written(run):
    assert read_answer(run) == report_answers.answer()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "perhaps"}, "verdict: expected one of feasible"),
        ({"extrapolated": "no"}, "extrapolated: expected true or false"),
        ({"figures": [{"name": "f", "value": "1", "unit": "h"}]}, "figures[0]: value: expected a number"),
        ({"sheets": [{"title": "t", "columns": ["a", "b"], "rows": [[1]]}]}, "a row has 1 cells for 2 columns"),
        ({"sentences": "one text"}, "sentences: expected a list of texts"),
        ({"charts": 3}, "it is no whole summary"),
    ],
)
def test_a_field_that_is_wrong_is_named(tmp_path, change, said):
    with pytest.raises(BadInput, match=r"summary\.json") as error:
        read_answer(written(tmp_path, report_answers.answer().as_dict() | change))
    assert said in str(error.value)


def test_a_series_of_unequal_lengths_is_refused(tmp_path):
    body = json.loads(pretty(report_answers.answer().as_dict()))
    body["charts"][0]["series"][0]["low"].pop()
    with pytest.raises(BadInput, match=r"charts\[0\]: series\[0\]: series 'frontier': low has 3 values for 4 of x"):
        read_answer(written(tmp_path, body))


def test_the_verb_writes_one_file_and_leaves_the_run_as_it_was(run, tmp_path):
    before = (run / "summary.json").read_bytes()
    done = lobra("report", "run", "run_dir=out", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("wrote out/report.html (")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert (run / "summary.json").read_bytes() == before


def test_without_a_run_dir_the_report_lies_beside_the_summary_and_is_the_same_again(run, tmp_path):
    assert lobra("report", "run", cwd=tmp_path).returncode == 0
    first = (run / "report.html").read_bytes()
    assert lobra("report", "run", "run_dir=run", cwd=tmp_path).returncode == 0
    assert (run / "report.html").read_bytes() == first
    assert read_answer(run) == report_answers.answer()


def test_runs_stand_in_the_order_they_were_named(run, tmp_path):
    written(tmp_path / "it's [an]other, run", report_answers.answer(question="frontier").as_dict())
    assert lobra("report", "it's [an]other, run", "run", "run_dir=out", cwd=tmp_path).returncode == 0
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert text.index('<p class="kicker">frontier') < text.index('<p class="kicker">run')


def test_a_folder_without_a_summary_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    check_refused(lobra("report", "empty", cwd=tmp_path), 2, "empty/summary.json", "directory of a finished run")


def test_a_newer_schema_is_refused(tmp_path):
    written(tmp_path / "new", report_answers.answer().as_dict() | {"schema": 2})
    check_refused(lobra("report", "new", cwd=tmp_path), 2, "expected 1, got 2", "this version reads schema 1 only")


@pytest.mark.parametrize("text", ['{"schema": 1, ', '{"schema": 1, "kind": "answer", "x": NaN}', "[]"])
def test_broken_json_is_refused(tmp_path, text):
    written(tmp_path / "broken", text)
    check_refused(lobra("report", "broken", cwd=tmp_path), 2, "broken/summary.json")


def test_another_verbs_summary_is_refused(tmp_path):
    written(tmp_path / "plan", {"schema": 1, "plan": {}})
    check_refused(lobra("report", "plan", cwd=tmp_path), 2, "no answer to report", "lobra whatif")


def test_a_run_dir_that_cannot_be_written_is_refused(run, tmp_path):
    (tmp_path / "file").write_text("")
    check_refused(lobra("report", "run", "run_dir=file/out", cwd=tmp_path), 2, "run_dir file/out: cannot be written")


def test_an_unknown_key_is_refused(run, tmp_path):
    check_refused(lobra("report", "run", "colour=red", cwd=tmp_path), 2, "colour")


def test_no_run_at_all_is_refused(tmp_path):
    check_refused(lobra("report", cwd=tmp_path), 2, "runs: no run is given")


def test_a_refusal_leaves_the_former_report_as_it_was(run, tmp_path):
    assert lobra("report", "run", "run_dir=out", cwd=tmp_path).returncode == 0
    before = (tmp_path / "out" / "report.html").read_bytes()
    assert lobra("report", "run", "nowhere", "run_dir=out", cwd=tmp_path).returncode == 2
    assert (tmp_path / "out" / "report.html").read_bytes() == before
