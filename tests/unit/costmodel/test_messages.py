"""Measured messages: where they hold, what they say, and what is left to the formula."""

import json

import numpy as np
import pytest

import toys
from costmodel import messages as room
from costmodel.catalogue import cost_model
from costmodel.collectives import FILE, HARDWARE, Timed, document, fit_messages, json_text, left_out_errors, read_tables
from costmodel.communication import all_reduce_seconds
from costmodel.exchange import synchronise_seconds, transfer_seconds
from costmodel.hardware import cluster_spec, model_spec
from costmodel.messages import Messages, messages_of
from costmodel.roofline import roofline_price
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig, Shape

CLUSTER = cluster_spec("a100_80gb", 2, 8)
MEASURED = messages_of(CLUSTER)
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point")


def test_sixteen_mebibytes_among_eight_gpus_take_what_three_sources_say():
    assert MEASURED.seconds("all_reduce", CLUSTER, 2**24, 8, crosses=False) == pytest.approx(0.23e-3, rel=0.05)


@pytest.mark.parametrize("members", [2, 3, 5, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_message_is_never_faster_even_beyond_those_that_were_timed(kind, members):
    sizes = [0, *(2.0**power for power in range(9, 34))]
    seconds = [
        MEASURED.seconds(kind, CLUSTER, size, 2 if kind == "point_to_point" else members, crosses=False)
        for size in sizes
    ]

    assert seconds[0] > 0
    assert np.all(np.diff(seconds) >= 0)
    assert 1.9 <= seconds[-1] / seconds[-2] <= 2.1  # bandwidth goes on


def test_a_group_between_two_measured_sizes_lies_between_them():
    four, six, eight = (MEASURED.seconds("all_reduce", CLUSTER, 2**26, members, crosses=False) for members in (4, 6, 8))

    assert six == pytest.approx((four + eight) / 2)
    assert MEASURED.line("all_reduce", CLUSTER, 6, crosses=False).byte == pytest.approx(
        sum(MEASURED.line("all_reduce", CLUSTER, members, crosses=False).byte for members in (4, 8)) / 2
    )


def test_one_member_has_nobody_to_tell():
    assert MEASURED.seconds("all_reduce", CLUSTER, 2**26, 1, crosses=False) == 0
    assert MEASURED.line("all_to_all", CLUSTER, 1, crosses=True) == (0, 0)


def test_more_members_than_were_measured_and_other_nodes_are_left_to_the_formula():
    wide = cluster_spec("a100_80gb", 1, 16)

    assert MEASURED.seconds("all_reduce", wide, 1e8, 16, crosses=False) == all_reduce_seconds(wide.intra_node, 1e8, 16)
    assert MEASURED.seconds("all_reduce", wide, 1e8, 8, crosses=True) == all_reduce_seconds(wide.inter_node, 1e8, 8)
    assert "not measured" in MEASURED.note("all_reduce", 8, crosses=True)
    assert "measured (NVIDIA A100-SXM4-80GB)" in MEASURED.note("all_reduce", 8, crosses=False)


def test_measurements_between_nodes_hold_only_where_asked_for():
    asked = messages_of(CLUSTER, "measured")

    assert asked.seconds("point_to_point", CLUSTER, 2**26, 2, crosses=True) == pytest.approx(8.55e-3, rel=0.05)
    assert asked.seconds("all_reduce", CLUSTER, 2**26, 2, crosses=False) == MEASURED.seconds(
        "all_reduce", CLUSTER, 2**26, 2, crosses=False
    )


@pytest.mark.parametrize(
    "cluster",
    [
        cluster_spec("a800_80gb", 1, 8),
        cluster_spec("a100_80gb", 1, 8, intra_gigabytes_per_second=600),
        cluster_spec("a100_80gb", 1, 8, intra_latency_microseconds=1),
        toys.cluster(),
    ],
)
def test_hardware_that_nobody_measured_or_that_was_changed_has_the_formula(cluster):
    assert messages_of(cluster) == Messages()
    with pytest.raises(BadInput, match="nothing was measured on GPU"):
        messages_of(cluster, "measured")


def test_the_formula_can_be_asked_for_and_a_wrong_word_is_refused():
    assert messages_of(CLUSTER, "formula") == Messages()
    with pytest.raises(BadInput, match="messages: there is no 'table'"):
        messages_of(CLUSTER, "table")


def test_a_line_of_the_formula_is_the_formula():
    line = Messages().line("all_to_all", CLUSTER, 8, crosses=False)

    assert line.start == pytest.approx(5e-6)
    assert line.byte == pytest.approx(7 / 8 / (300e9 * 0.77))


def test_gradients_and_activations_travel_by_the_curves():
    plan, shape = toys.plan((1, 2, 2)), Shape(1, 1000, 1000, 1000, 10**6, 1, 1)
    found = Messages({("all_reduce", 2): _flat(3.0), ("point_to_point", 2): _flat(5.0)})

    update = synchronise_seconds(plan, found) - 3.0
    assert transfer_seconds(plan, 0, shape, found) == 5.0
    assert 0 < update < 1e-3


def test_sums_of_a_tensor_parallel_group_are_measured_inside_a_node_alone():
    model = model_spec("llama2_7b")
    plain, measured = (roofline_price(model, CLUSTER, 8, each) for each in (None, MEASURED))
    line = MEASURED.line("all_reduce", CLUSTER, 8, crosses=False)

    work = plain.token - 4 * 2 * (7 / 8) * 2 * 4096 / (300e9 * 0.77)
    assert measured.token == pytest.approx(work + 4 * line.byte * 2 * 4096)
    assert roofline_price(model, CLUSTER, 16, MEASURED) == roofline_price(model, CLUSTER, 16)


def test_provenance_tells_what_messages_rest_on():
    cost = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8))
    inside, outside = (" ".join(cost.provenance(ReplicaConfig(1, pp), ()).notes) for pp in (2, 16))

    assert "point-to-point inside a node measured" in inside
    assert "point-to-point between nodes from link bandwidth, not measured" in outside


def test_messages_beyond_the_largest_that_was_timed_are_told():
    assert "beyond 64 MiB extrapolated" in MEASURED.note("point_to_point", 2, crosses=False, size=2**27)
    assert "extrapolated" not in MEASURED.note("point_to_point", 2, crosses=False, size=2**26)
    notes = (
        cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)).provenance(ReplicaConfig(1, 8), ()).notes
    )
    assert any("transfers point-to-point inside a node measured" in note for note in notes)


def test_a_curve_and_a_line_go_through_a_message_that_is_a_line():
    size = 2.0 ** np.arange(9, 30)
    curve, line = fit_messages(Timed("all_reduce", 2, "inside", size, 1e-5 + 1e-11 * size))

    assert curve.seconds(0, 0, 2.0**33, 0) == pytest.approx(1e-5 + 1e-11 * 2**33, rel=1e-6)
    assert line == pytest.approx((1e-5, 1e-11))


def test_a_size_left_out_is_not_seen():
    size, seconds = 2.0 ** np.arange(9, 30), 1e-5 + 1e-11 * 2.0 ** np.arange(9, 30)
    seconds[4] *= 2
    errors, _ = left_out_errors(Timed("all_reduce", 2, "inside", size, seconds))

    assert errors[4] == pytest.approx(-0.5, abs=0.02)


def test_the_shipped_curves_are_what_the_command_makes_of_the_tables(reference_data):
    assert json_text(document(reference_data / "gpu_profiles")) == FILE.read_text(encoding="utf-8")


def test_every_shipped_curve_tells_points_and_held_out_error():
    shipped = json.loads(FILE.read_text(encoding="utf-8"))
    rows = [row for entry in shipped["hardware"] for row in entry["curves"]]

    assert len(shipped["hardware"]) == len(HARDWARE)
    assert len(rows) == 44
    assert all(row["points"] >= 21 and 0 < row["held_out_mean_error"] < 0.16 for row in rows)
    assert "Apache-2.0" in shipped["source"]
    assert "MIT" in shipped["source"]


def test_a_shipped_curve_that_falls_is_refused(monkeypatch, tmp_path):
    broken = json.loads(FILE.read_text(encoding="utf-8"))
    broken["hardware"][0]["curves"][0]["height_seconds"][1] = 0.0
    monkeypatch.setattr(room, "FILE", tmp_path / "broken.json")
    room.FILE.write_text(json.dumps(broken), encoding="utf-8")

    with pytest.raises(BadInput, match="fall"):
        messages_of(CLUSTER, "measured")


def test_a_table_that_is_absent_is_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tables(tmp_path, "a100_sxm")


def _flat(seconds: float) -> room.Measured:
    return room.Measured(room.Curve((0.0,), (seconds,), (0.0,)), room.Line(seconds, 0.0), 1.0)
