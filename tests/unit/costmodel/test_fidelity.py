"""The fidelity table: what was held out never reaches a fit, figures are those of the definition, bars are judged."""

import csv
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from costmodel.profile import Profile

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
S, B = (np.array(v, np.float64) for v in zip(*((s, b) for s in (128, 512, 2048) for b in (1, 2, 4)), strict=True))


@pytest.fixture(autouse=True)
def benchmarks_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def load(name: str):
    return importlib.import_module(name)


def held(predicted, measured, groups=None, tokens=None):
    groups = tuple(groups or ["all"] * len(predicted))
    tokens = None if tokens is None else np.array(tokens, np.float64)
    return load("fidelity.rows").Held(np.array(predicted), np.array(measured), groups, tokens)


def test_a_row_tells_mean_median_tail_worst_bucket_and_ranges():
    rows, report = load("fidelity.rows"), load("fidelity.report")
    points = held([1.1, 0.8, 1.0, 1.3], [1.0] * 4, ["a", "a", "b", "b"], [100, 600, 600, 5000])

    told = report.body(rows.row("x", points, 0.2, "nothing"))

    assert list(told)[:5] == ["evidence", "figure", "bar", "holds", "n"]
    assert (told["figure"], told["holds"], told["n"]) == (0.15, True, 4)
    assert (told["median"], told["largest"], told["bias"]) == (0.15, 0.3, 0.05)
    assert told["worst_bucket"] == {"name": "a", "mean": 0.15}
    assert told["ranges"] == {"N < 512": 0.1, "512-4k": 0.1, ">= 4k": 0.3}


def test_a_bar_is_missed_by_the_mean_or_by_one_point():
    row, points = load("fidelity.rows").row, held([1.1, 0.9, 1.25], [1.0] * 3)

    assert row("x", points, 0.1, "").holds is False
    assert row("x", points, 0.2, "").holds is True
    assert row("x", points, 0.2, "", worst=0.2).holds is False
    assert row("x", points, None, "").holds is None


def test_every_point_is_held_out_once_and_folds_are_the_same_every_time():
    rows = load("fidelity.rows")

    masks, again = list(rows.folds(23)), list(rows.folds(23))

    assert np.array_equal(np.sum(masks, axis=0), np.ones(23))
    assert np.array_equal(masks, again)
    assert [int(mask.sum()) for mask in rows.leave_out(["b", "a", "b"])] == [2, 1]


def test_a_scalar_is_fitted_without_the_group_that_it_judges():
    rows = load("fidelity.rows")
    points = held([1.0, 1.0, 1.0], [2.0, 2.0, 5.0], ["a", "b", "c"])

    scaled = rows.one_scalar(points, rows.leave_out(points.groups))

    assert scaled.predicted == pytest.approx([np.sqrt(10), np.sqrt(10), 2.0])


def test_one_part_is_found_again_and_never_negative():
    rows = load("fidelity.rows")
    part = np.array([1.0, 2.0, 3.0, 4.0])
    points, short = held(10 + 0 * part, 10 + 0.7 * part, "abcd"), held(10 + 0 * part, 10 - part, "abcd")

    found, weights = rows.one_part(points, part, rows.leave_out(points.groups))

    assert found.mean == pytest.approx(0.0, abs=1e-12)
    assert weights == pytest.approx([0.7] * 4)
    assert rows.one_part(short, part, rows.leave_out(short.groups))[1] == pytest.approx([0.0] * 4)


def test_a_length_left_out_is_predicted_from_the_others():
    layers, forms = load("fidelity.lobra_layers"), load("fidelity.forms")
    line = 2e-3 + 4e-6 * B * S + 1e-10 * B * S**2
    profile = Profile(1, S, B * S, B * S**2, np.where(S == 512, 2 * line, line), rows=B)

    errors = layers.one_length_out(profile, forms.solver_view).errors

    assert errors[S == 512] == pytest.approx(-0.5, abs=1e-6)  # nothing of the doubled length reached its fit


def test_the_paper_form_is_found_again_with_any_sign():
    forms = load("fidelity.forms")
    truth = ((2e-10 * B - 1e-10) * S**2 + (5e-6 * B + 1e-6) * S - 1e-5 * B + 3e-3).astype(np.float64)
    profile = Profile(1, S, B * S, B * S**2, truth, rows=B)

    assert forms.paper_form(profile)(profile) == pytest.approx(truth)


def iterations(count: int, seed: int = 0):
    generator = np.random.default_rng(seed)

    def pick(*values):
        return generator.choice(np.array(values, np.float64), count)

    return {
        "hidden_size": pick(1024, 2048, 4096),
        "num_layers": pick(12, 24),
        "sequence_length": pick(1024, 2048),
        "micro_batch": pick(1, 2, 4, 8),
        "tensor_parallelism": pick(1, 2, 4),
        "data_parallelism": pick(1, 2),
        "pipeline_parallelism": pick(1, 2, 4),
        "global_batch": pick(64, 128),
    }


RING = {count: (np.array([1e6, 1e9]), np.array([2e-5, 1e-2])) for count in (2, 4, 8)}


def test_an_iteration_of_known_constants_is_predicted_from_others():
    module = load("fidelity.iterations")
    parts = module.parts_of(iterations(300), RING)
    kernels, launches = np.array([1.5e-13, 2e-10, 0, 1.2, 0, 1e-3]), np.array([3e-3, 1e-4, 0])
    rest = np.array([3e-14, 0.9, 2e-3, 1e-4, 1e-3, 1e-11])
    seconds = module.Iteration(kernels, launches, rest).seconds(parts)
    chosen = np.arange(300) < 200

    told = module.fit_iteration(parts, seconds, chosen).seconds(parts)

    assert np.mean(np.abs(told[~chosen] / seconds[~chosen] - 1)) < 0.01
    waits = parts.launches @ launches > parts.kernels @ kernels
    assert 0.05 < waits.mean() < 0.95  # both branches were there to be told apart


def test_all_reduces_are_interpolated_and_in_proportion_beyond():
    all_reduce = load("fidelity.iterations").all_reduce
    members, size = np.array([1.0, 2.0, 16.0, 4.0]), np.array([5e8, 1e6, 2e9, 5.005e8])

    assert all_reduce(RING, members, size) == pytest.approx([0.0, 2e-5, 2e-2, (2e-5 + 1e-2) / 2])


def test_intervals_of_honest_errors_cover_and_too_narrow_groups_show_across():
    coverage = load("fidelity.coverage")
    generator = np.random.default_rng(1)
    groups = ["calm"] * 200 + ["wild"] * 200
    errors = np.concatenate([generator.normal(0, 0.02, 200), generator.normal(0, 0.2, 200)])
    points = held(np.exp(errors), np.ones(400), groups)

    apart = coverage.judged(points, 0)
    row = load("fidelity.rows").row("x", points, None, "")
    (told,) = coverage.rows([row])

    assert apart.n == 400
    assert apart.holds
    assert told.figure == apart.share
    assert "p = 0.00" in told.notes[2]  # judged by the others' errors: calm ones are all covered, wild ones are not


def test_rows_with_few_points_or_in_sample_have_no_interval():
    rows, coverage = load("fidelity.rows"), load("fidelity.coverage")
    few, many = held(np.ones(39), np.ones(39)), held(np.ones(50), np.ones(50))
    impossible = held(np.linspace(-1, 1, 50), np.ones(50))
    in_sample = rows.Row("x", 0.0, None, 50, "", many, out_of_sample=False)

    assert coverage.rows([rows.row("x", few, None, ""), rows.row("x", impossible, None, ""), in_sample]) == []


def test_steps_of_a_real_run_are_judged_without_their_first(tmp_path: Path):
    body = {
        "measured_seconds": [9.0, 1.0, 2.0],
        "again_seconds": [[5.0, 1.2, 2.0], [5.0, 1.1, 4.0]],
        "predicted_seconds": [1.0, 1.21, 2.0],
        "step_noise": 0.2,
        "place": {"ranks": "4", "cores": "2"},
    }
    (tmp_path / "summary.json").write_text(json.dumps(body))

    (row,) = load("fidelity.machine").rows(tmp_path)

    assert (row.n, row.bar, row.holds) == (2, 0.10, True)
    assert row.figure == pytest.approx(0.05)
    assert row.repeat_noise == "plays of the same step differ by 20.0%"


def test_an_absent_folder_is_skipped_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = load("validate_costmodel").main(["--reference-data", str(tmp_path), "--json", str(tmp_path / "f.json")])

    told = json.loads((tmp_path / "f.json").read_text())
    assert code == 0
    assert told["rows"] == []
    assert len(told["skipped"]) == 10
    assert "skipped: vTrain" in capsys.readouterr().out


def test_every_bar_holds_on_the_published_measurements(reference_data: Path, tmp_path: Path):
    code = load("validate_costmodel").main(
        ["--reference-data", str(reference_data), "--json", str(tmp_path / "f.json")]
    )

    rows = json.loads((tmp_path / "f.json").read_text())["rows"]
    figures = {row["evidence"]: row for row in rows}
    assert code == 0
    assert [row["evidence"] for row in rows if row["holds"] is False] == []
    assert figures["vTrain, 1,440 iterations on one node, 5-fold"]["n"] == 1440
    assert figures["A100 layer composites, 5-fold: solver view"]["n"] == 1356
    assert figures["LobRA 7B profile, tp 1: its two measuring sessions"]["figure"] == pytest.approx(0.057, abs=5e-4)
    assert figures["the paper's recipe (b in 1, 4; other b predicted): theirs, six coefficients"]["figure"] > 0.3
    with (tmp_path / "f.points.csv").open() as file:
        counted = sum(1 for _ in csv.DictReader(file))
    assert counted == sum(row["n"] for row in rows if "median" in row)
