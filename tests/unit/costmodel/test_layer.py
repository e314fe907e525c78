"""The price of a layer and of a stage, by hand."""

import pytest

from costmodel.layer import LayerPrice, directions, stage_price
from lobra.plan import Shape

PRICE = LayerPrice(floor=4.0, fixed=1.0, run=0.0, token=0.01, square=1e-4, forward_linear=0.5, forward_attention=0.25)


def shape(tokens: int, squares: int, runs: int = 1) -> Shape:
    return Shape(1, tokens, tokens, tokens, squares, runs, 1)


def seconds(price: LayerPrice, layers: int, recomputed: int, what: Shape) -> float:
    return stage_price(price, layers, recomputed).seconds(what.runs, what.tokens, what.squares)


def test_a_small_micro_batch_costs_the_floor_of_every_layer():
    assert seconds(PRICE, 3, 0, shape(10, 100)) == 12.0


def test_a_large_one_costs_the_line():
    assert seconds(PRICE, 2, 0, shape(1000, 50_000)) == pytest.approx(2 * (1 + 10 + 5))


def test_forward_is_half_of_the_linear_part_and_a_quarter_of_attention():
    assert directions(PRICE, 2, 0, shape(1000, 50_000)) == pytest.approx((2 * (5.5 + 1.25), 2 * (5.5 + 3.75)))


def test_recomputing_a_layer_adds_its_forward_pass():
    plain, full = (seconds(PRICE, 2, k, shape(1000, 50_000)) for k in (0, 2))

    assert full - plain == pytest.approx(directions(PRICE, 2, 0, shape(1000, 50_000))[0])
    assert full - plain == pytest.approx(2 * (0.5 * 11 + 0.25 * 5))


def test_adapter_runs_are_paid_one_by_one():
    price = PRICE._replace(run=0.5)

    assert seconds(price, 1, 0, shape(1000, 0, runs=4)) == pytest.approx(1 + 2 + 10)
    assert sum(directions(price, 1, 0, shape(1000, 0, runs=4))) == pytest.approx(1 + 2 + 10)


def test_gathered_weights_hide_behind_a_long_layer_and_show_behind_a_short_one():
    price = PRICE._replace(gather=6.0)

    assert seconds(price, 2, 0, shape(10, 100)) == 12.0
    assert directions(price, 2, 0, shape(10, 100)) == (6.0, 6.0)
    assert seconds(price, 2, 0, shape(1000, 50_000)) == pytest.approx(32.0)


@pytest.mark.parametrize("recomputed", [0, 1, 3])
@pytest.mark.parametrize("tokens", [1, 10, 333, 1000, 4321])
def test_both_directions_add_up_to_the_stage(tokens: int, recomputed: int):
    what = shape(tokens, tokens**2)

    assert sum(directions(PRICE, 3, recomputed, what)) == pytest.approx(seconds(PRICE, 3, recomputed, what), rel=1e-15)
