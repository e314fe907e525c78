"""Curves and lines of models that nobody timed, from efficiencies of kernels."""

import json
from pathlib import Path

import numpy as np
import pytest

from costmodel import efficiency as module
from costmodel.catalogue import cost_model
from costmodel.communication import ring_seconds
from costmodel.efficiency import Efficiency, adapter_bytes, efficient_layer, known_efficiency, layer_curve
from costmodel.fit_efficiency import SHAPES, Measured, Points, fit_adapters, fit_kernels, layer_seconds, shape_of
from costmodel.hardware import cluster_spec, model_spec
from costmodel.knotted import KnottedCost
from costmodel.profile import Profile
from lobra.errors import BadInput

CLUSTER = cluster_spec("a100_40gb", 1, 8)
MODEL, GPU = model_spec("llama2_7b"), CLUSTER.gpu
KNOWN = Efficiency((0.0, 1000.0), (1.0, 2.0), 1.0, 3.0, 5.0, 2.0, 100.0, 1e-7, 4.0, 1e-3, 6.0)


def test_a_layer_by_hand():
    b, s, tp = 4, 500, 2
    n, weights, peak, size = b * s, MODEL.layer_parameters, 312e12, 1555e9
    attention = 7 * 4096 / tp / peak
    inputs = 2 * (5 * 4096 + (3 * 4096 + 2 * 11008) / tp + (4096 + 11008) / tp + 2 * 4096)
    expected = (
        1e-3
        + 4 * weights / tp / size
        + (1.0 * 1000 + 2.0 * (n - 1000)) * 4 * weights / tp / peak
        + n * (3 * 2 * 4096 + 5 * 2 * (4096 + 11008) / tp + 4 * inputs) / size
        + attention * (2 * b * s * s + 100 * n)
        + 1e-7 * b * 32 / tp
    )

    assert layer_curve(KNOWN, MODEL, GPU, tp).seconds(1, b, n, b * s * s) == pytest.approx(expected)
    assert adapter_bytes(MODEL, tp) == inputs


def test_a_group_pays_four_sums_and_its_head_one():
    alone, four = (efficient_layer(KNOWN, MODEL, CLUSTER, tp) for tp in (1, 4))
    tokens = 3000
    sums = 4 * ring_seconds(CLUSTER.intra_node, 2 * 4096 * tokens, 4)

    played = sum(curve.seconds(1, 1, tokens, tokens**2) for curve in four.view)
    assert played == pytest.approx(layer_curve(KNOWN, MODEL, GPU, 4).seconds(1, 1, tokens, tokens**2) + sums)
    head = 2.0 * 4 * 4096 * 32000 / 312e12 + 6 * 2 * 32000 / 1555e9
    assert alone.head * alone.price.token == pytest.approx(head)
    message = 2 * 3 / 4 * 2 * 4096 / (300e9 * 0.77)
    assert four.head * four.price.token == pytest.approx(head / 4 + message)


@pytest.mark.parametrize("name", ["a100_40gb", "a800_80gb", "h100_80gb", "h200"])
def test_planners_and_simulator_see_nearly_the_same_layer(name):
    cost = cost_model(model_spec("llama2_70b"), cluster_spec(name, 2, 8), form="roofline")

    assert isinstance(cost, KnottedCost)
    for tp, view in cost.views.items():
        price = cost.layered.prices[tp, 1, False]
        for rows, length in ((1, 512), (8, 512), (16, 1024), (1, 16384)):
            n, squares = rows * length, rows * length**2
            planned = max(price.floor, price.fixed + price.run + price.token * n + price.square * squares)
            assert planned == pytest.approx(sum(curve.seconds(1, rows, n, squares) for curve in view), rel=0.06)


def test_families_are_told_apart_and_other_devices_have_none():
    a100, h100 = (known_efficiency(cluster_spec(name, 1, 8).gpu) for name in ("a800_80gb", "h200"))

    assert a100 is not None
    assert h100 is not None
    assert "A100 kernels" in a100.note
    assert "H100 kernels" in h100.note
    assert known_efficiency(cluster_spec("cpu", 1, 8).gpu) is None
    assert not isinstance(cost_model(model_spec("demo"), cluster_spec("cpu", 1, 8)), KnottedCost)


def test_small_micro_batches_are_less_efficient_than_large_ones():
    curve = layer_curve(known_efficiency(GPU).efficiency, MODEL, GPU, 8)
    each = [curve.seconds(1, 1, n, 0) / n for n in (128, 512, 2048, 8192)]

    assert each == sorted(each, reverse=True)
    assert each[0] > 3 * each[-1]


@pytest.mark.parametrize(("name", "value"), [("weights", -1.0), ("inverse", [1.0, float("nan")]), ("row", "x")])
def test_a_damaged_source_is_refused(name, value, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = json.loads(module.FILE.read_text())
    content["families"][0]["coefficients"][name] = value
    (tmp_path / "efficiency.json").write_text(json.dumps(content))
    monkeypatch.setattr(module, "FILE", tmp_path / "efficiency.json")

    with pytest.raises(BadInput, match=f"efficiency: {name} is"):
        known_efficiency(GPU)


def made(model: str, tp: int, truth: Efficiency) -> Points:
    pairs = [(b, s) for s in (32, 128, 512, 2048) for b in (1, 2, 8, 16)]
    s, b = (np.array(column, np.float64) for column in zip(*((s, b) for b, s in pairs), strict=True))
    profile = Profile(tp, s, b * s, b * s**2, np.ones_like(s), rows=b)
    curve = layer_curve(truth, shape_of(model), GPU, tp)
    return Points(model, tp, Profile(tp, s, b * s, b * s**2, curve.of(profile), rows=b))


def test_a_fit_finds_the_numbers_that_made_its_points():
    truth = Efficiency((0.0, 64.0, 512.0), (0.5, 1.0, 1.25), 1.1, 30.0, 15.0, 2.0, 900.0, 5e-8, 0.0, 2e-4, 0.0)
    points = [made(model, tp, truth) for model in ("Llama-2-7b", "Llama-2-70b", "Qwen-72B") for tp in (1, 2, 8)]
    found = fit_kernels(points, GPU)

    for point in points:
        assert np.abs(layer_curve(found, shape_of(point.model), GPU, point.tp).errors(point.profile)).max() < 1e-6
    assert found.attention == pytest.approx(2.0, rel=1e-4)
    assert found.whole == pytest.approx(30.0, rel=1e-3)


def test_adapters_and_the_fixed_part_are_what_whole_layers_take_beyond_kernels():
    kernels = KNOWN._replace(adapters=0.0, logits=0.0)
    truth = kernels._replace(adapters=11.0, fixed=kernels.fixed + 4e-4)
    names = tuple(name for name in SHAPES if name.endswith(("instruct", "32b")) for _ in range(4))
    blank = Measured(names, np.array([512.0, 1024, 2048, 8192] * 3), np.ones(12), np.full(12, 1e3))
    found, errors = fit_adapters(kernels, blank._replace(seconds=layer_seconds(truth, blank, GPU)), GPU)

    assert (found.adapters, found.fixed) == pytest.approx((11.0, truth.fixed))
    assert np.abs(errors).max() < 1e-6


def test_a_model_without_a_known_shape_is_refused():
    with pytest.raises(BadInput, match="shape of model 'gpt' is not known"):
        shape_of("gpt")
