"""Planned by the floor form, played by curves."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import toys
from costmodel.catalogue import cost_model
from costmodel.fit import document_text, source_document
from costmodel.hardware import cluster_spec, model_spec
from costmodel.profile import Profile
from costmodel.scaled import with_factors
from costmodel.uncertainty import drawn
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
COST, FLOOR = (cost_model(SEVEN, CLUSTER, form=form) for form in ("auto", "floor"))
HEADLESS = replace(COST, planned=replace(COST.planned, head={}))
SIX = tuple(toys.tenant(name) for name in "abcdef")
WHAT = Shape(2, 1024, 2048, 2048, 2 * 1024**2, 1, 1)


def replica(tp: int, pp: int, **more) -> Replica:
    return Replica(ReplicaConfig(tp, pp, **more), tuple(range(tp * pp)), 16384)


def whole(place: Replica, stage: int = 0, shape: Shape = WHAT, cost=COST) -> float:
    return sum(cost.stage_seconds(place, stage, shape, kind) for kind in ("forward", "backward"))


def test_planners_see_the_floor_form_and_the_head():
    widths = np.array([128, 1024, 8192])
    for config in FLOOR.configs():
        ours, bare, floor = (cost.rates(config, widths) for cost in (COST, HEADLESS, FLOOR))
        token = 32000 * 4096 / SEVEN.layer_parameters * FLOOR.price(config, 1).token

        assert (bare.floor, bare.pack, list(bare.row)) == (floor.floor, floor.pack, list(floor.row))
        assert ours.row == pytest.approx(floor.row + token * widths)
        assert ours.pack.token == pytest.approx(floor.pack.token + token)
        assert (ours.floor, list(ours.fixed)) == (floor.floor, list(floor.fixed))
        assert COST.max_tokens(config, SIX) == FLOOR.max_tokens(config, SIX)
    assert COST.configs() == FLOOR.configs()


def test_where_stages_are_uneven_planners_do_not_see_the_head():
    widths = np.array([1024])

    assert list(COST.rates(ReplicaConfig(1, 3), widths).row) == list(FLOOR.rates(ReplicaConfig(1, 3), widths).row)


def test_a_stage_is_the_curve_of_its_source():
    fits = yaml.safe_load(
        (Path(cost_model.__code__.co_filename).parent / "sources/llama2_7b_a100_40gb_floor.yaml").read_text()
    )
    curve = fits["fits"][1]["simulator"]["whole"]
    expected = curve["height_seconds"][5] + curve["square_seconds"] * WHAT.squares  # tp 2, 2,048 tokens: a knot

    assert curve["knots"][5] == WHAT.tokens
    assert whole(replica(2, 1), cost=HEADLESS) == pytest.approx(32 * expected)


def test_the_head_stands_on_the_last_stage_alone():
    place = replica(1, 4)
    stages = [whole(place, stage) for stage in range(4)]
    head = 32000 * 4096 / SEVEN.layer_parameters * 4.8182594e-6 * 2048

    assert stages[:3] == pytest.approx([whole(place, 0, cost=HEADLESS)] * 3)
    assert stages[3] - stages[0] == pytest.approx(head)


def test_recomputation_runs_forward_once_more():
    forward = HEADLESS.stage_seconds(replica(1, 1), 0, WHAT, "forward")

    assert whole(replica(1, 1, recompute=8)) - whole(replica(1, 1)) == pytest.approx(8 / 32 * forward)


def test_replicas_that_share_a_micro_batch_take_their_part_of_it():
    shared, part = WHAT._replace(shards=2), WHAT._replace(tokens=1024, squares=1024**2)
    price, alone = COST.layered.price(ReplicaConfig(1, 1), 2), COST.layered.price(ReplicaConfig(1, 1), 1)
    messages = price.fixed - alone.fixed + (price.token - alone.token / 2) * 2048

    assert whole(replica(1, 1), shape=shared, cost=HEADLESS) == pytest.approx(
        whole(replica(1, 1), shape=part, cost=HEADLESS) + 32 * messages
    )


def test_gathered_weights_are_a_floor():
    slow = cost_model(SEVEN, cluster_spec("a100_40gb", 4, 1, inter_gigabytes_per_second=0.5), form="knots")
    gather = slow.layered.price(ReplicaConfig(1, 1, fsdp=4), 1).gather

    assert whole(replica(1, 1, fsdp=4), cost=replace(slow, planned=replace(slow.planned, head={}))) == pytest.approx(
        32 * gather
    )


def test_with_a_head_nothing_is_merely_measured():
    config = ReplicaConfig(1, 1)
    told = COST.provenance(config, SIX)

    assert (FLOOR.provenance(config, SIX).status, told.status) == ("measured", "derived")
    assert "head: 0.65 of a layer's part a token on the last stage, by its weights" in told.notes
    assert any(note.startswith("simulated with knots") for note in told.notes)


def test_other_coefficients_move_the_plan_and_the_play_alike():
    factors = {"fixed": 1.2, "run": 1.2, "token": 0.9, "square": 1.1}
    other = with_factors(COST, {2: factors})
    ours, theirs = (cost.layered.price(ReplicaConfig(2, 1), 1) for cost in (COST, other))
    longer, wider = WHAT._replace(tokens=4096), WHAT._replace(squares=4 * 1024**2)

    assert [theirs.fixed, theirs.token, theirs.square] == pytest.approx(
        [1.2 * ours.fixed, 0.9 * ours.token, 1.1 * ours.square]
    )
    for changed, factor in ((longer, 0.9), (wider, 1.1)):
        before, after = (
            whole(replica(2, 2), 1, changed, cost) - whole(replica(2, 2), 1, WHAT, cost) for cost in (COST, other)
        )
        assert after == pytest.approx(factor * before)  # the head among them
    start = WHAT._replace(tokens=0, squares=0)
    assert whole(replica(2, 1), 0, start, other) == pytest.approx(1.2 * whole(replica(2, 1), 0, start))
    assert whole(replica(8, 1), cost=other) == whole(replica(8, 1))


def test_a_draw_of_the_truth_moves_the_curves_too():
    truth = drawn(COST, {}, seed=1, draw=1)

    assert whole(replica(2, 1), cost=truth) != whole(replica(2, 1))
    assert whole(replica(2, 1), cost=truth) == pytest.approx(whole(replica(2, 1)), rel=0.1)


def test_a_fitted_file_is_played_by_its_curves_and_has_its_head_in_them(tmp_path: Path):
    s, b = (np.array(v, np.float64) for v in zip(*((s, b) for s in (64, 512, 2048) for b in (1, 2, 4)), strict=True))
    profile = Profile(1, s, b * s, b * s**2, 1e-3 + 2e-6 * b * s, rows=b)
    described = {"gpu": "X", "model": "llama2_7b", "status": "measured", "source": "a bench"}
    document = source_document([profile], described | {"forward_share": {"linear": 0.5, "attention": 0.2}})
    document["fits"][0]["max_tokens"] = 4096
    (tmp_path / "f.yaml").write_text(document_text(document, "a test"))

    cost = cost_model(SEVEN, CLUSTER, form="knots", file=tmp_path / "f.yaml")

    assert whole(replica(1, 1), cost=cost) == pytest.approx(32 * (1e-3 + 2e-6 * 2048), rel=1e-4)
    assert cost.synchronise_seconds(toys.plan((1, 1, 2))) == 0.0


def test_knots_need_a_fitted_source():
    with pytest.raises(BadInput, match="knots: there is no such source"):
        cost_model(model_spec("llama2_70b"), cluster_spec("a800_80gb", 2, 8), form="knots")


def test_published_step_times_are_met_without_fitting_to_them(reference_data: Path):
    """Table 9: every stage once, and the last one for all other micro-batches."""
    errors = []
    with (reference_data / "published/table9_step_seconds_7b_16xA100-40GB.csv").open() as file:
        for row in csv.DictReader(file):
            tp, pp, count, s, number = (
                int(row[key]) for key in ("tp", "pp", "replicas", "sequence_length", "micro_batches")
            )
            rows = 64 // count // number
            shape = Shape(rows, s, rows * s, rows * s, rows * s * s, 1, 1)
            stages = [whole(replica(tp, pp), stage, shape) for stage in range(pp)]
            errors.append((sum(stages) + (number - 1) * stages[-1]) / float(row["lobra_seconds"]) - 1)

    assert len(errors) == 32
    assert np.mean(np.abs(errors)) < 0.023
    assert np.max(np.abs(errors)) < 0.065
