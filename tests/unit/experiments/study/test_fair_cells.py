"""Cells out of results made by hand: who stands on each side, what is decided, what is flagged."""

import pytest

from experiments.study import fair
from experiments.study.fair_cells import compared
from experiments.study.fair_matrix import BATCHINGS, MODELS, Options, cells, searched
from experiments.study.fair_page import fair_section
from experiments.study.fair_waterfall import drops

EQUAL, MIX, RECOMPUTED = 0, 1, 2
PLANS = [
    {"summary": "<8,1>x2", "mixed": False, "recompute": "none", "fsdp": False},
    {"summary": "<1,8>x1 <8,1>x1", "mixed": True, "recompute": "none", "fsdp": False},
    {"summary": "<1,1,r32>x16", "mixed": False, "recompute": "full", "fsdp": False},
]


def run(plan, planned, gpu_seconds, *, status="measured", extrapolated=False, three=None):
    batches = [gpu_seconds * shift for shift in (0.9, 1.0, 1.1)]
    other = [(three or gpu_seconds) * shift for shift in (0.9, 1.0, 1.1)]
    return {
        "plan": plan,
        "planning_seconds": planned,
        "gpu_seconds": {"0": batches, "1": batches, "3": other},
        "draws": [1.0, 1.0],
        "status": status,
        "extrapolated": extrapolated,
        "padding": 0.0,
        "shards": 1,
    }


def point(played, *, cp=False, memory="rounded", recompute=("none", "full")):
    return {
        "model": "7b",
        "memory": memory,
        "cp": cp,
        "recompute": list(recompute),
        "sharded": False,
        "planning_batches": 2,
        "batches": 3,
        "searches": {"made": 2, "identical": 1, "infeasible": 0},
        "plans": PLANS,
        "played": played,
    }


PACKED = [run(EQUAL, 10.0, 100.0), run(MIX, 7.0, 70.0), run(RECOMPUTED, 8.0, 68.0, status="derived", extrapolated=True)]
PADDED = [run(EQUAL, 16.0, 160.0), run(MIX, 9.0, 90.0)]


def found(results):
    return {(told.cell.batching, told.cell.options): told for told in compared(results)}


def test_every_model_has_its_120_cells_and_each_verdict_three_costs_of_an_adapter_run():
    assert len(list(cells(("7b",), ("rounded", "un-rounded"), tuple(BATCHINGS)))) == 120
    assert len(fair.points("paper")) == len(MODELS) * 4


def test_options_are_nested():
    assert Options("some", fsdp=True, cp=True).allows(Options("full"))
    assert not Options("full").allows(Options("some"))
    assert not Options("some").allows(Options(cp=True))
    assert searched(("none", "full"), 8)[0] == Options("full", fsdp=True)


def test_survival_compares_both_sides_with_the_same_options():
    told = found({"a": point({"packed": PACKED, "dynamic 16/16": PADDED})})
    plain, more = told["packed", Options()], told["packed", Options("full")]

    assert (plain.equal.summary, plain.mix.summary) == ("<8,1>x2", "<1,8>x1 <8,1>x1")
    assert plain.survival().word == "fires"
    assert plain.survival().flags == ()
    assert (more.equal.summary, more.mix.summary) == ("<1,1,r32>x16", "<1,8>x1 <8,1>x1")
    assert more.survival().word == "does not"  # chosen on the planning batches; on those that came it is no better
    assert str(more.survival()) == "does not [derived, extrapolated]"


def test_a_packed_baseline_is_held_against_lobra_padded_and_packed():
    plain = found({"a": point({"packed": PACKED, "dynamic 16/16": PADDED})})["packed", Options()]

    assert plain.over() == pytest.approx(100 / 90)
    assert plain.falsifier().word == "fires"
    assert plain.over(packed=True) == pytest.approx(100 / 70)
    assert plain.falsifier(packed=True).word == "does not"


def test_verdicts_are_repeated_at_other_costs_of_an_adapter_run():
    played = [run(EQUAL, 10.0, 100.0, three=130.0), run(MIX, 7.0, 90.0, three=129.0)]
    told = found({"a": point({"packed": played})})["packed", Options()]

    assert [told.survival(times).word for times in (0, 1, 3)] == ["fires", "fires", "does not"]


def test_what_context_parallelism_leaves_unused_counts_where_it_is_allowed():
    worse = [run(EQUAL, 12.0, 120.0), run(MIX, 11.0, 110.0)]
    told = found({"a": point({"packed": PACKED}), "b": point({"packed": worse}, cp=True)})

    assert told["packed", Options(cp=True)].equal.gpu_seconds[1].mean == pytest.approx(100.0)


def test_without_lobra_in_the_same_memory_there_is_no_falsifier():
    told = found({"a": point({"packed": PACKED}, memory="un-rounded")})["packed", Options()]

    assert told.falsifier() is None
    assert told.falsifier(packed=True) is not None


def test_the_waterfall_adds_the_mix_last_or_first_and_leaves_out_what_was_not_played():
    results = {"a": point({"padded 7": [run(EQUAL, 20.0, 200.0), run(MIX, 11.0, 110.0)], "packed": PACKED})}

    last = [(drop.ingredient, round(drop.left.value, 3)) for drop in drops(results, "7b", mix_first=False)]
    first = [(drop.ingredient, round(drop.left.value, 3)) for drop in drops(results, "7b", mix_first=True)]

    assert last[:2] == [("padded, 7 widths", 1.0), ("packing", 0.5)]
    assert last[-1] == ("mix of replicas", 0.35)
    assert first[1] == ("mix of replicas", 0.55)


def test_table_sentences_and_figure_stand_without_any_results():
    assert fair.table({}) == []
    assert fair.notes({})
    assert fair.figure({}) is not None


def test_the_page_counts_every_verdict_and_shows_every_cell():
    text = fair_section({"a": point({"packed": PACKED, "dynamic 16/16": PADDED})})

    assert "| 7b | survival | 3x | 3 (3) | 1 (1) | 0 (0) | derived, extrapolated |" in text
    assert "| rounded | full | no | no | 43.8 % (44..44) survives | -2.9 % (-3..-3) does not |" in text
    assert "<8,1>x2 / <1,8>x1 <8,1>x1" in text
    assert fair_section({}) == ""
