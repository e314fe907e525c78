"""Every study, played as smoke: it ends well, and its table, sentences and figure follow from its results alone."""

import json

import pytest

from commands import check_refused, lobra
from experiments.study.catalogue import STUDIES, study_of
from experiments.study.point import SWEEPS
from experiments.study.results import cells, read_study


@pytest.fixture(scope="module", params=STUDIES)
def played(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    done = lobra("study", request.param, "run_dir=OUT", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return request.param, folder, done


def test_a_study_writes_its_numbers_its_table_and_its_figure(played):
    name, folder, done = played
    out = folder / "OUT"
    assert "points done; numbers " in done.stdout
    results = read_study(out, name)
    assert [point.name for point in study_of(name).points("smoke")] == list(results)
    assert (out / f"{name}.csv").read_text().count("\n") == len(study_of(name).table(results)) + 1
    assert (out / f"{name}.txt").read_text().splitlines() == list(study_of(name).notes(results))


def test_a_figure_is_drawn_again_from_the_results_alone_with_the_same_bytes(played):
    name, folder, _ = played
    if not (folder / "OUT" / f"{name}.pdf").exists():
        pytest.skip("this study draws nothing")
    alone = folder / "alone"
    alone.mkdir()
    for file in ("study.json", "wall.json"):
        (alone / file).write_bytes((folder / "OUT" / file).read_bytes())
    assert lobra("figure", name, "run=alone", "format=pdf", cwd=folder).returncode == 0
    assert (alone / f"{name}.pdf").read_bytes() == (folder / "OUT" / f"{name}.pdf").read_bytes()


def test_tables_sentences_and_figures_do_without_points_that_failed(played):
    name, folder, _ = played
    study, results = study_of(name), read_study(folder / "OUT", name)
    for lost in results:
        rest = {point: result for point, result in results.items() if point != lost}
        columns, rows = cells(study.table(rest))
        assert all(len(row) == len(columns) for row in rows)
        assert all(isinstance(line, str) for line in study.notes(rest))
        if rest:
            study.figure(rest)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("sweep", SWEEPS)
def test_points_have_names_of_their_own(name, sweep):
    names = [point.name for point in study_of(name).points(sweep)]
    assert names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fig8", "sweep=all"), "sweep is 'all'"),
        (("fig8", "seed=-1"), "seed is -1"),
        (("fig8", "jobs=0"), "jobs is 0"),
        (("study=fig99",), "there is no study 'fig99'"),
        (("fig99",), "there is no option 'fig99'"),
        (("smoke",), "model: there is no such group here"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, arguments, said):
    check_refused(lobra("study", *arguments, "run_dir=OUT", cwd=tmp_path), 2, said)


def test_a_study_is_no_setting_of_a_comparison(tmp_path):
    check_refused(lobra("compare", "experiment=fig8", cwd=tmp_path), 2, "key 'study' not in 'Compare'")


def test_the_results_of_another_study_are_not_drawn(tmp_path):
    (tmp_path / "study.json").write_text('{"schema": 1, "study": "toy", "points": {}}')
    check_refused(lobra("figure", "fig8", "run=.", cwd=tmp_path), 2, "expected 'fig8', got 'toy'")


@pytest.fixture
def fig11(tmp_path):
    """Results of figure 11 made up."""
    figures = {"gpu_seconds": 2.0, "interval": [1.9, 2.2], "step_seconds": 1.0, "padding": 0.1, "status": "derived"}
    body = {"policies": {"R4": figures | {"gpu_seconds_per_step": [2.0, 2.0]}, "R9": {"failed": "why", "exit_code": 3}}}
    study = {
        "schema": 1,
        "study": "fig11",
        "points": {"ours": {"result": body}, "lost": {"failed": "x", "exit_code": 6}},
    }
    (tmp_path / "study.json").write_text(json.dumps(study))
    return tmp_path


def test_a_figure_goes_where_it_is_wanted_in_the_format_of_its_name(fig11):
    done = lobra("figure", "fig11", "run=.", "output=made.svg", cwd=fig11)
    assert done.stdout == "wrote made.svg\n"
    assert (fig11 / "made.svg").read_text().startswith("<?xml")
    assert not list(fig11.glob("*.pdf"))


def test_a_figure_of_a_study_comes_in_every_format_where_none_is_named(fig11):
    assert lobra("figure", "fig11", "run=study.json", cwd=fig11).returncode == 0
    assert sorted(path.name for path in fig11.glob("fig11.*")) == ["fig11.pdf", "fig11.png", "fig11.svg"]


@pytest.mark.parametrize(
    ("arguments", "said"), [(("output=made.txt",), "output is 'made.txt'"), (("format=bmp",), "format is 'bmp'")]
)
def test_a_figure_in_no_known_format_is_refused(fig11, arguments, said):
    check_refused(lobra("figure", "fig11", "run=.", *arguments, cwd=fig11), 2, said)
