"""The price of a layer and of a stage, by hand."""

import pytest

from costmodel.layer import LayerPrice, forward_price, split, stage_price

PRICE = LayerPrice(floor=4.0, fixed=1.0, run=0.0, token=0.01, square=1e-4, forward_linear=0.5, forward_attention=0.25)


def test_a_small_micro_batch_costs_the_floor_of_every_layer():
    assert stage_price(PRICE, 3, 0).seconds(1, 10, 100) == 12.0


def test_a_large_one_costs_the_line():
    assert stage_price(PRICE, 2, 0).seconds(1, 1000, 50_000) == pytest.approx(2 * (1 + 10 + 5))


def test_recomputing_a_layer_adds_its_forward_pass():
    plain, full = (stage_price(PRICE, 2, k).seconds(1, 1000, 50_000) for k in (0, 2))

    assert full - plain == pytest.approx(forward_price(PRICE, 2).seconds(1, 1000, 50_000))
    assert full - plain == pytest.approx(2 * (0.5 * 11 + 0.25 * 5))


def test_adapter_runs_are_paid_one_by_one():
    price = PRICE._replace(run=0.5)

    assert stage_price(price, 1, 0).seconds(4, 1000, 0) == pytest.approx(1 + 2 + 10)


def test_gathered_weights_hide_behind_a_long_layer_and_show_behind_a_short_one():
    price = PRICE._replace(gather=6.0)

    assert stage_price(price, 2, 0).seconds(1, 10, 100) == 12.0
    assert stage_price(price, 2, 0).seconds(1, 1000, 50_000) == pytest.approx(32.0)


@pytest.mark.parametrize(("whole", "forward"), [(1.0, 0.3), (0.1, 0.05), (7.3e-3, 1.1e-3), (0.0, 0.0)])
def test_both_directions_add_up_to_the_last_bit(whole: float, forward: float):
    parts = split(whole, forward)

    assert sum(parts) == whole
    assert parts[0] == pytest.approx(forward)
