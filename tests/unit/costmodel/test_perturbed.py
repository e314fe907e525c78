"""Perturbed cost models: coefficient by coefficient, drawn from a seed."""

import numpy as np
import pytest

from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from costmodel.perturbed import perturbed
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape
from toys import ToyCost, plan

MODEL, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
WIDTHS = np.array([64, 512, 4096])
SHAPES = [Shape(2, width, 2 * width, 2 * width, 2 * width**2, 1, 1) for width in (64, 512, 1024)]


def seconds(cost, tp):
    replica = Replica(ReplicaConfig(tp, 1), tuple(range(tp)), 4096)
    return [cost.stage_seconds(replica, 0, shape, way) for shape in SHAPES for way in ("forward", "backward")]


@pytest.mark.parametrize(
    "cost", [cost_model(MODEL, CLUSTER, form=form) for form in ("floor", "knots", "paper", "roofline")] + [ToyCost()]
)
@pytest.mark.parametrize("law", ["uniform", "lognormal"])
def test_without_spread_every_answer_is_the_same_to_the_last_bit(cost, law):
    other = perturbed(cost, 0.0, law=law, seed=3, draw=5)
    for tp in (1, 8):
        assert seconds(other, tp) == seconds(cost, tp)
        one, same = (model.rates(ReplicaConfig(tp, 1), WIDTHS) for model in (cost, other))
        assert np.array_equal(one.row, same.row)
        assert np.array_equal(one.fixed, same.fixed)
        assert (one.floor, one.pack) == (same.floor, same.pack)
    assert other.synchronise_seconds(plan((1, 1, 2))) == cost.synchronise_seconds(plan((1, 1, 2)))


@pytest.mark.parametrize(
    "cost", [cost_model(MODEL, CLUSTER, form=form) for form in ("floor", "knots", "roofline")] + [ToyCost()]
)
def test_uniform_factors_keep_every_answer_within_the_spread(cost):
    for draw in range(10):
        other = perturbed(cost, 0.1, draw=draw)
        for tp in (1, 2, 8):
            ratios = np.array(seconds(other, tp)) / np.array(seconds(cost, tp))
            whole = ratios.reshape(-1, 2)
            assert np.all((whole > 0.85) & (whole < 1.15))  # forward and backward trade a little
            rates, changed = cost.rates(ReplicaConfig(tp, 1), WIDTHS), other.rates(ReplicaConfig(tp, 1), WIDTHS)
            assert np.all(np.abs(changed.row / rates.row - 1) <= 0.1 + 1e-12)
        assert other.max_tokens(ReplicaConfig(1, 1), ()) == cost.max_tokens(ReplicaConfig(1, 1), ())


def test_coefficients_are_changed_one_by_one_and_tps_apart():
    cost = cost_model(MODEL, CLUSTER, form="floor")
    other = perturbed(cost, 0.1, seed=1)
    factors = {
        (tp, name): getattr(other.cost.prices[tp, 1, False], name) / getattr(cost.prices[tp, 1, False], name)
        for tp in (1, 2, 4, 8)
        for name in ("floor", "fixed", "token", "square")
        if getattr(cost.prices[tp, 1, False], name)
    }
    assert len({round(factor, 9) for factor in factors.values()}) == len(factors)
    shared = [key for key in cost.prices if key[0] == 1 and key[1] > 1]
    assert shared
    for key in shared:  # a group of replicas rests on the same measurement
        assert other.cost.prices[key].square / cost.prices[key].square == pytest.approx(factors[1, "square"])


def test_a_draw_depends_on_seed_and_number_alone():
    cost = cost_model(MODEL, CLUSTER)
    assert seconds(perturbed(cost, 0.1, seed=2, draw=3), 1) == seconds(perturbed(cost, 0.1, seed=2, draw=3), 1)
    assert seconds(perturbed(cost, 0.1, seed=2, draw=3), 1) != seconds(perturbed(cost, 0.1, seed=2, draw=4), 1)
    assert seconds(perturbed(cost, 0.1, seed=2, draw=3), 1) != seconds(perturbed(cost, 0.1, seed=3, draw=3), 1)


@pytest.mark.parametrize(
    ("spread", "law", "said"),
    [
        (1.0, "uniform", "no price becomes zero"),
        (-0.1, "lognormal", "0 or more"),
        (float("nan"), "uniform", "spread is nan"),
        (0.1, "normal", "choose uniform or lognormal"),
    ],
)
def test_a_senseless_perturbation_is_refused(spread, law, said):
    with pytest.raises(BadInput, match=said):
        perturbed(ToyCost(), spread, law=law)
