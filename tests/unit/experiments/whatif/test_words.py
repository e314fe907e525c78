"""Durations and budgets as people write them."""

import pytest

from experiments.whatif.words import budget_of, seconds_of, some_seconds, told
from lobra.errors import BadInput
from workloads.arrivals.nouns import Budget


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("8h", 28800), ("1h30m", 5400), ("90 s", 90), ("2d", 172800), ("1w", 604800), ("3600", 3600), ("0.5h", 1800)],
)
def test_a_duration_is_read_as_it_is_written(text, seconds):
    assert seconds_of("slo.finish_p95", text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "8 hours", "h", ""])
def test_what_is_no_duration_is_refused_with_its_key(text):
    with pytest.raises(BadInput, match=r"slo\.finish_p95 is"):
        seconds_of("slo.finish_p95", text)


def test_a_promise_of_no_time_at_all_is_refused_and_none_stays_none():
    with pytest.raises(BadInput, match="above 0"):
        some_seconds("slo.finish_p95", "0s")
    assert some_seconds("slo.finish_p95", None) is None


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("800 steps", Budget(800)),
        ("800", Budget(800)),
        ("5e6 tokens", Budget(5e6, "tokens")),
        ("1 epoch", Budget(1, "epochs")),
    ],
)
def test_a_budget_is_read_as_it_is_written(text, budget):
    assert budget_of("budget", text) == budget


@pytest.mark.parametrize("text", ["many steps", "5 dollars", "-3 steps", "0 epochs", ""])
def test_what_is_no_budget_is_refused_with_its_key(text):
    with pytest.raises(BadInput, match=r"budgets\.ann is"):
        budget_of("budgets.ann", text)


def test_a_duration_is_told_in_the_unit_that_suits_it():
    assert [told(seconds) for seconds in (30, 1800, 28800, 259200)] == ["30 s", "30 m", "8 h", "3 d"]
