"""Draws of what the truth may be."""

from math import exp, log

import numpy as np
import pytest

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from costmodel.layer import LayerPrice
from costmodel.scaled import changed
from costmodel.uncertainty import COMPOSED_SIGMA, coefficient_factors, drawn, sigmas_of, systematic_sigma
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape

COST = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8), form="floor")
SHAPE = Shape(2, 1024, 2048, 2048, 2 * 1024**2, 1, 1)
PRICE = LayerPrice(0.0, 2.5e-3, 0.0, 4.8e-6, 1.3e-10, 0.47, 0.25)


def seconds(cost, tp: int = 1, pp: int = 1, shape: Shape = SHAPE) -> float:
    replica = Replica(ReplicaConfig(tp, pp), tuple(range(tp * pp)), 2048)
    return sum(cost.stage_seconds(replica, 0, shape, kind) for kind in ("forward", "backward"))


def spread(sigmas, tp: int = 1, pp: int = 1, draws: int = 120):
    return np.array(
        [log(seconds(drawn(COST, sigmas, seed=1, draw=draw), tp, pp) / seconds(COST, tp, pp)) for draw in range(draws)]
    )


def test_three_measurements_of_one_layer_are_the_width_of_measured_times():
    sigma = systematic_sigma("measured")
    assert exp(2 * 1.645 * sigma) == pytest.approx(14.6 / 12.5)


def test_weaker_evidence_is_never_narrower():
    assert systematic_sigma("measured") < systematic_sigma("derived") == COMPOSED_SIGMA < systematic_sigma("roofline")
    assert systematic_sigma("measured", half_width=0.5) == systematic_sigma("derived", half_width=0.5)
    assert systematic_sigma("measured", excess=3) == pytest.approx(3 * systematic_sigma("measured"))


def test_the_systematic_term_moves_all_stages_of_a_shape_as_told():
    logs = spread({(1, 1): 0.2})
    assert logs.std() == pytest.approx(0.2, rel=0.15)
    assert abs(logs.mean()) < 0.05


def test_what_has_no_term_moves_by_the_fit_alone():
    assert 0 < spread({(8, 1): 0.2}).std() < 0.02


def test_shapes_are_drawn_apart_and_draws_repeat_to_the_bit():
    sigmas = {(1, 1): 0.1, (1, 2): 0.1, (8, 1): 0.1}
    one, again = (drawn(COST, sigmas, seed=3, draw=5) for _ in range(2))
    ratios = {round(seconds(one, *key) / seconds(COST, *key), 6) for key in sigmas}

    assert len(ratios) == 3
    assert [seconds(one, *key) for key in sigmas] == [seconds(again, *key) for key in sigmas]
    assert seconds(one) != seconds(drawn(COST, sigmas, seed=3, draw=6)) != seconds(drawn(COST, sigmas, seed=4, draw=5))


def test_rates_and_stages_of_a_draw_agree():
    truth = drawn(COST, {(1, 1): 0.3}, seed=1, draw=2)
    rates = truth.rates(ReplicaConfig(1, 1), np.array([1024]))
    assert max(rates.floor, rates.fixed[0] + 2 * rates.row[0]) == pytest.approx(seconds(truth))


def test_memory_and_candidates_are_never_drawn():
    truth, config = drawn(COST, {(1, 1): 0.3}, seed=1, draw=2), ReplicaConfig(1, 1)
    assert truth.configs() == COST.configs()
    assert truth.max_tokens(config, (toys.tenant(),)) == COST.max_tokens(config, (toys.tenant(),))
    assert truth.provenance(config, (toys.tenant(),)).notes[-1] == "coefficients drawn from their uncertainty"


def test_coefficients_are_drawn_jointly_so_that_the_middle_of_the_hull_moves_least():
    normals = np.random.default_rng(1).standard_normal((400, 3))
    prices = [changed(PRICE, coefficient_factors(PRICE, (32768, 4096), normal)) for normal in normals]
    fixed, token = (np.array([getattr(price, name) for price in prices]) for name in ("fixed", "token"))
    middle = np.array([price.fixed + price.token * 1024 + price.square * 1024**2 for price in prices])

    assert np.corrcoef(fixed, token)[0, 1] < -0.2
    assert middle.std() / middle.mean() < min(fixed.std() / fixed.mean(), token.std() / token.mean())


def test_no_drawn_coefficient_is_negative():
    price = changed(PRICE, coefficient_factors(PRICE, (32768, 4096), np.array([-500.0, 500.0, -500.0])))
    assert min(price.floor, price.fixed, price.token, price.square) >= 0


def test_the_term_of_a_shape_follows_its_provenance_and_its_excess():
    configs = [ReplicaConfig(1, 1), ReplicaConfig(1, 2), ReplicaConfig(8, 1)]
    found = sigmas_of(COST, configs, (toys.tenant(),), {(8, 1): 2.0})
    measured = systematic_sigma("measured")

    assert found == pytest.approx({(1, 1): measured, (1, 2): COMPOSED_SIGMA, (8, 1): 2 * measured})


@pytest.mark.parametrize(("sigmas", "seed"), [({(1, 1): -0.1}, 0), ({(1, 1): float("nan")}, 0), ({}, -1)])
def test_impossible_draws_are_refused(sigmas, seed):
    with pytest.raises(BadInput, match="intervals"):
        drawn(COST, sigmas, seed=seed, draw=0)
