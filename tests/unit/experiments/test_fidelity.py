"""The figure of the fidelity table."""

import json
from pathlib import Path

import pytest

from experiments.fidelity import Point, fidelity_figure, read_fidelity
from lobra.errors import BadInput

ROWS = [
    {"evidence": "a table", "figure": 0.031, "bar": 0.05, "holds": True, "n": 2},
    {"evidence": "a claim", "figure": 0.3, "bar": 0.1, "holds": False, "n": 2},
    {"evidence": "intervals", "figure": 0.9, "bar": 0.9, "holds": True, "n": 40},
]
POINTS = [
    Point("a table", 100.0, 1.0, 1.1),
    Point("a table", 5000.0, 20.0, 21.0),
    Point("a claim", None, 1.0, 2.0),
    Point("a claim", None, -1.0, 2.0),
]


def written(folder: Path, text: str = "a table,g,100,1.0,1.1\na claim,g,,1.0,2.0\n") -> Path:
    path = folder / "fidelity.json"
    path.write_text(json.dumps({"schema": 1, "rows": ROWS}))
    (folder / "fidelity.points.csv").write_text(f"evidence,group,tokens,predicted,measured\n{text}")
    return path


def test_a_panel_for_every_row_with_points_and_its_verdict_above():
    drawn = fidelity_figure(ROWS, POINTS)

    assert [axes.get_title() for axes in drawn.axes] == [
        "a table\n3.1% (bar 5.0%, holds), n = 2",
        "a claim\n30.0% (bar 10.0%, missed), n = 2",
    ]
    assert {axes.get_xscale() for axes in drawn.axes} == {"log"}


def test_the_ideal_line_is_the_diagonal_of_equal_axes():
    axes = fidelity_figure(ROWS, POINTS).axes[0]

    (x, y) = axes.lines[0].get_data()
    assert list(x) == list(y)
    assert axes.get_xlim() == axes.get_ylim()


def test_points_that_a_logarithmic_axis_cannot_hold_are_counted():
    assert fidelity_figure(ROWS, POINTS).get_supxlabel().endswith("; 1 points left out")


def test_rows_and_points_are_read_back(tmp_path: Path):
    rows, points = read_fidelity(written(tmp_path))

    assert rows == ROWS
    assert points == [Point("a table", 100.0, 1.0, 1.1), Point("a claim", None, 1.0, 2.0)]


def test_a_figure_without_any_point_is_drawn():
    assert fidelity_figure([], []).axes == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("a table,g,100,fast,1.1\n", "line 2: tokens, predicted"), ("a table,g\n", "line 2: tokens, predicted")],
)
def test_points_that_are_no_numbers_are_refused_by_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(BadInput, match=message):
        read_fidelity(written(tmp_path, text))


def test_an_absent_points_file_and_foreign_rows_are_refused(tmp_path: Path):
    path = written(tmp_path)
    (tmp_path / "fidelity.points.csv").unlink()
    with pytest.raises(BadInput, match="the benchmark writes it beside the rows"):
        read_fidelity(path)
    path.write_text('{"schema": 1, "rows": [1]}')
    with pytest.raises(BadInput, match="expected rows with an evidence"):
        read_fidelity(path)
