"""The twelve fits against the moments that the paper publishes."""

from importlib.resources import files

import numpy as np
import pytest
import yaml
from scipy import stats

from lobra.errors import BadInput
from workloads.published import dataset_task, paper_tasks, real_task
from workloads.samplers import draw
from workloads.table import tabulate

COUNT = 200_000
TASKS = [*paper_tasks().values(), paper_tasks("lognormal")["meetingbank"]]
IDS = [*paper_tasks(), "meetingbank_lognormal"]


def law_numbers(body: dict) -> dict:
    """A law as it stands in YAML without its base, nor the mean that a log-normal's mu and sigma already give."""
    skipped = {"base", "scale_mean"} if body["family"] == "shifted_lognormal" else {"base"}
    return {key: value for key, value in body.items() if key not in skipped}


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_a_fit_has_the_published_moments(task, record_property):
    moments = tabulate(task.lengths, task.name).moments()
    record_property("excess_kurtosis", (moments.excess_kurtosis, task.published.excess_kurtosis))

    assert moments.mean == pytest.approx(task.published.mean, rel=0.001)
    assert moments.skewness == pytest.approx(task.published.skewness, rel=0.06)
    assert moments.excess_kurtosis == pytest.approx(task.published.excess_kurtosis, rel=0.25)


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_samples_of_a_fit_have_the_published_mean_and_skewness(task):
    table = tabulate(task.lengths, task.name)
    sample = table.sample(np.random.default_rng(0), COUNT)
    even = draw(table, np.random.default_rng(0), COUNT, "stratified")

    assert sample.mean() == pytest.approx(task.published.mean, rel=0.01)
    assert even.mean() == pytest.approx(task.published.mean, rel=0.01)
    assert stats.skew(even) == pytest.approx(task.published.skewness, rel=0.1)
    if task.name != "xsum":  # its skewness is made by one sequence in 22,000: 9 in this sample, give or take 3
        assert stats.skew(sample) == pytest.approx(task.published.skewness, rel=0.1)


def test_the_shipped_fits_are_those_of_the_reference(reference_data):
    text = (reference_data / "workloads" / "lengths" / "lobra_table4.yaml").read_text()
    reference = {task["name"]: task for task in yaml.safe_load(text)["tasks"]}
    laws = {name: task["lengths"] for name, task in reference.items()}
    laws["meetingbank"] = yaml.safe_load(text)["alternatives"][0]["lengths"]
    raw = files("workloads").joinpath("data/lobra_table4.yaml").read_text(encoding="utf-8")
    shipped = {task["name"]: task for task in yaml.safe_load(raw)["tasks"]}
    tasks = paper_tasks()

    assert law_numbers(shipped["meetingbank"]["alternatives"]["lognormal"]) == law_numbers(
        reference["meetingbank"]["lengths"]
    )
    assert list(tasks) == list(reference)
    for name, task in tasks.items():
        body = reference[name]
        assert task.batch_size == body["batch_size"]
        assert task.context_limit == body["context_length"]
        published = {key: getattr(task.published, key) for key in ("mean", "skewness", "excess_kurtosis")}
        assert published == body["published"]
        assert law_numbers(shipped[name]["lengths"]) == law_numbers(laws[name])


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_a_fit_lies_near_the_reference_rows(task, reference_data):
    name = "meetingbank_alt" if task is TASKS[11] else task.name
    rows = np.loadtxt(reference_data / "workloads" / "lengths" / f"lobra_{name}_fit.csv", skiprows=1)
    table = tabulate(task.lengths, task.name)
    points = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])

    np.testing.assert_allclose(table.quantile(points), np.quantile(rows, points), rtol=0.06)


def test_meetingbank_has_the_shape_of_real_meetings_unless_told_otherwise():
    default, lognormal = (
        tabulate(paper_tasks(kind)["meetingbank"].lengths, "x") for kind in ("alternative", "lognormal")
    )

    assert int(default.quantile(np.array([0.5]))[0]) == pytest.approx(2580, rel=0.01)
    assert int(lognormal.quantile(np.array([0.5]))[0]) == pytest.approx(1752, rel=0.01)


@pytest.mark.parametrize(("kind", "share"), [("alternative", 0.01895), ("lognormal", 0.0341)])
def test_meetingbank_exceeds_its_context_limit_as_often_as_the_reference(kind, share):
    table = tabulate(paper_tasks(kind)["meetingbank"].lengths, "x")

    assert 1 - table.at_most(np.array([16384]))[0] == pytest.approx(share, rel=0.1)


def test_any_shipped_set_can_be_asked_for_by_name():
    assert dataset_task("dolly_15k").batch_size == 256
    assert dataset_task("gsm8k") == real_task("gsm8k")


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: dataset_task("gms8k"), "no dataset 'gms8k'; did you mean gsm8k"),
        (lambda: real_task("math"), "did you mean math_test"),
        (lambda: paper_tasks("gamma"), "meetingbank is 'gamma'; choose alternative or lognormal"),
    ],
)
def test_unknown_names_are_refused(ask, words):
    with pytest.raises(BadInput, match=words):
        ask()
