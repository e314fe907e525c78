"""The referee's verdicts on summaries made by hand."""

import numpy as np
import pytest

from experiments.study import referee
from experiments.study.fair_page import referee_section
from experiments.study.referee_cases import cases


def body(gpu_seconds, *, status="measured", extrapolated=False, draws=(1.0, 1.0)):
    return {
        "gpu_seconds_per_step": [gpu_seconds * shift for shift in (0.9, 1.0, 1.1)],
        "draws": list(draws),
        "status": status,
        "extrapolated": extrapolated,
        "plan_summaries": ["<8,1>x2"],
        "accumulated": 12.0,
        "chunk_tokens": 16384,
    }


def summary(padded=300.0, packed=200.0, lobra=180.0, both=150.0, **more):
    names = ("lobra_published", "lobra_packed_published")
    played = {"task_fused": body(padded), "task_fused_packed": body(packed, **more)}
    return {"policies": played | {names[0]: body(lobra), names[1]: body(both)}}


def only(results):
    (case,) = cases(results)
    return case


@pytest.mark.parametrize(
    ("lobra", "both", "words"),
    [(180.0, 150.0, ("fires", "does not")), (150.0, 190.0, ("does not", "fires"))],
)
def test_the_packed_baseline_is_held_against_lobra_padded_and_packed(lobra, both, words):
    case = only({"7b": summary(lobra=lobra, both=both)})

    assert (case.padded_verdict.word, case.packed_verdict.word) == words


def test_unsure_prices_make_the_falsifier_undecided_and_a_basis_is_named():
    draws = [float(x) for x in np.exp([-0.3, 0.3, -0.2, 0.2])]
    still = summary(status="roofline", draws=draws)
    for name, each in still["policies"].items():
        if name != "task_fused_packed":
            each["draws"] = [1.0] * 4
    case = only({"7b": still})

    assert str(case.padded_verdict) == "undecided [roofline]"
    assert case.padded_verdict.given_prices == "fires"


def test_the_table_has_a_row_a_comparison():
    rows = referee.table({"7b": summary()})

    assert [(row["policy"], row["against"]) for row in rows] == [
        ("task_fused_packed", "task_fused"),
        ("lobra_published", "task_fused"),
        ("lobra_published", "task_fused_packed"),
        ("lobra_packed_published", "task_fused_packed"),
    ]
    assert [round(row["saves"], 3) for row in rows] == [0.333, 0.4, 0.1, 0.25]


def test_the_scope_says_what_is_left_against_packing():
    told = referee.notes({"7b": summary(), "70b": summary(padded=600, packed=400, lobra=200, both=160)})
    (scope,) = [line for line in told if line.startswith("scope:")]

    assert "of one that packs it saves 10 to 50 %" in scope
    assert "45 % or more are surely kept against packing in 70b" in scope
    assert "within 20 % of padded LobRA in 7b (published plans), not in 70b (published plans)" in scope


def test_packing_that_gains_little_everywhere_is_moot():
    gains = {name: summary(padded=205.0, packed=200.0) for name in ("7b", "70b")}

    assert "moot (it gains 10 % or less in every setting): fires" in referee.notes(gains)[0]
    assert "does not" in referee.notes({"7b": summary()})[0]


def test_a_setting_whose_lobra_failed_is_left_out():
    broken = summary()
    broken["policies"]["lobra_published"] = {"failed": "no room", "exit_code": 3}

    assert list(cases({"7b": broken})) == []


def test_the_paper_sweep_is_the_three_settings_with_100_steps_on_published_plans():
    points = referee.points("paper")

    assert [point.name for point in points] == ["7b", "32b", "70b"]
    assert all("steps=100" in point.overrides for point in points)
    assert points[0].policies["task_fused_packed"] == ("policy=task_fused_packed", "policy/deployment=paper")


def test_the_page_has_a_row_a_case_and_the_scope():
    text = referee_section({"7b": summary()})

    assert "| 7b | published | 33.3 % (33.3..33.3) | 40.0 %" in text
    assert "Packing is moot (10 % or less everywhere): does not. Scope: LobRA saves" in text
    assert referee_section({}) == ""
