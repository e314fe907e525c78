"""Launches and tensor efficiency moved on purpose, in both views at once."""

import numpy as np
import pytest

from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from costmodel.levers import with_levers
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from toys import ToyCost

MODEL, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 8)
WIDTHS = np.array([16, 4096])


@pytest.fixture(scope="module", params=["roofline", "knots"])
def cost(request):
    return cost_model(MODEL, CLUSTER, form=request.param)


def price(cost, tp):
    return cost.rates(ReplicaConfig(tp, 1), WIDTHS).pack


def test_ones_change_nothing(cost):
    assert with_levers(cost) is cost


def test_launches_scale_the_fixed_parts_and_leave_work_and_runs_alone(cost):
    before, after = price(cost, 2), price(with_levers(cost, launch=3.0), 2)
    assert after.fixed == pytest.approx(3 * before.fixed)
    assert (after.run, after.token, after.square) == pytest.approx((before.run, before.token, before.square))
    floors = (model.rates(ReplicaConfig(2, 1), WIDTHS).floor for model in (with_levers(cost, launch=3.0), cost))
    assert next(floors) == pytest.approx(3 * next(floors))


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_tensor_efficiency_slows_work_once_a_doubling_and_spares_single_gpus(cost, tp):
    before, after = price(cost, tp), price(with_levers(cost, tensor_efficiency=0.8), tp)
    slower = 0.8 ** -np.log2(tp)
    assert after.fixed == pytest.approx(before.fixed)
    expected = (slower * before.run, slower * before.token, slower * before.square)
    assert (after.run, after.token, after.square) == pytest.approx(expected)


def test_what_was_moved_is_told(cost):
    told = with_levers(cost, launch=2.0).provenance(ReplicaConfig(2, 1), ())
    assert any("launches 2 times" in note for note in told.notes)


@pytest.mark.parametrize("value", [0.0, -1.0, 1000.0, float("nan")])
def test_figures_that_are_none_are_refused(cost, value):
    with pytest.raises(BadInput, match=r"tensor_efficiency is .*; give a factor"):
        with_levers(cost, tensor_efficiency=value)


def test_a_cost_model_without_such_coefficients_is_refused():
    with pytest.raises(BadInput, match=r"use form=roofline"):
        with_levers(ToyCost(), launch=2.0)
