"""Rows, grids and sentences of the sensitivity study, from results made by hand."""

import pytest

from experiments.study.sensitivity import notes, points, table
from experiments.study.sensitivity_rows import grids, rows


def result(task_fused, task_fused_packed, lobra, lobra_packed, **options):
    costs = {
        "task_fused": task_fused,
        "task_fused_packed": task_fused_packed,
        "lobra": lobra,
        "lobra_packed": lobra_packed,
    }
    bodies = {name: {"gpu_seconds_per_step": [value] * 3, "plan": "<1,1>x1"} for name, value in costs.items()}
    return {"policies": bodies} | options


def grid(values):
    return {
        f"70b_grid_80_{efficiency}_{between}": result(100.0, 1.0, 100.0 * (1 - saving), 1.0)
        | {"memory": 80, "efficiency": efficiency, "between": between}
        for (efficiency, between), saving in values.items()
    }


BASE = {"70b_base": result(100.0, 60.0, 55.0, 50.0)}


def test_a_row_holds_the_three_answers():
    (row,) = rows(BASE)
    assert row.headline == pytest.approx(0.45)
    assert row.survival == pytest.approx(1 - 50 / 60)
    assert row.falsifier == pytest.approx(60 / 55)
    assert (row.fires, row.winner) == (True, "lobra_packed")


def test_a_position_that_flips_the_falsifier_and_the_cheapest_policy_is_told():
    flipped = {"70b_between_low": result(100.0, 60.0, 40.0, 45.0)}
    told = "\n".join(notes(BASE | flipped))
    assert "no longer within 20% of padded LobRA at between nodes, GB/s 6.25 (1.50 times)" in told
    assert "another policy than lobra_packed is cheapest at between nodes, GB/s 6.25 (lobra)" in told


def test_a_position_of_which_a_policy_failed_has_no_row():
    lost = result(100.0, 60.0, 55.0, 50.0)
    lost["policies"]["lobra"] = {"failed": "nothing fits", "exit_code": 3}
    assert [row["lever"] for row in table(BASE | {"70b_nodes_low": lost})] == ["base"]


def test_the_crossing_lies_between_neighbours_on_the_logarithm():
    (found,) = grids(grid({(0.9, 10.0): 0.7, (0.9, 40.0): 0.5, (1.0, 10.0): 0.55, (1.0, 40.0): 0.4}))
    assert found.crossing(0.6) == [(0.9, pytest.approx(20.0))]
    assert "60.00% at 20.0 GB/s at efficiency 0.9" in found.lines(0.6)[0]


def test_every_lever_changes_one_thing_and_the_base_nothing():
    of_7b = {point.name: point.overrides for point in points("paper") if point.name.startswith("7b_")}
    base = of_7b["7b_base"]
    for name, overrides in of_7b.items():
        assert overrides[: len(base)] == base
        assert (len(overrides) > len(base)) is (name != "7b_base")
