"""Operations and bytes, by hand."""

import pytest

from costmodel.communication import tensor_link
from costmodel.hardware import cluster_spec, model_spec
from costmodel.roofline import roofline_price, roofline_seconds
from lobra.errors import BadInput


def test_a_kernel_takes_the_longer_of_computing_and_moving():
    assert roofline_seconds(1e12, 1e10, teraflops=312, gigabytes_per_second=2000) == pytest.approx(5.0e-3)
    assert roofline_seconds(1e12, 1e10, teraflops=312, gigabytes_per_second=1000) == pytest.approx(10.0e-3)
    assert roofline_seconds(1e12, 1e9, teraflops=312, gigabytes_per_second=2000) == pytest.approx(1e12 / 312e12)


def test_a_layer_of_7b_on_one_gpu_by_hand():
    price = roofline_price(model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 8), 1)
    weights = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096

    assert price.token == pytest.approx(4 * weights / (312e12 * 0.55))
    assert price.square == pytest.approx(7 * 4096 / (312e12 * 0.55))
    assert price.fixed == 0.6e-3
    assert price.floor == pytest.approx(0.6e-3 + 4 * weights / 1555e9)


def test_tensor_parallelism_shares_the_work_and_pays_for_its_sums():
    model, cluster = model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 8)
    one, eight = (roofline_price(model, cluster, tp) for tp in (1, 8))
    sums = 4 * 2 * (7 / 8) * 2 * 4096 / (300e9 * 0.77)

    assert eight.token == pytest.approx(one.token / 8 / 0.86 + sums)
    assert eight.square == pytest.approx(one.square / 8 / 0.86)
    assert eight.fixed > one.fixed


def test_a_group_that_fills_two_nodes_pays_the_network_between_them():
    model = model_spec("llama2_7b")
    inside = roofline_price(model, cluster_spec("a100_40gb", 1, 8), 8)
    across = roofline_price(model, cluster_spec("a100_40gb", 2, 4), 8)

    assert tensor_link(cluster_spec("a100_40gb", 2, 4), 8).gigabytes_per_second == 4 * 25
    assert across.token - inside.token == pytest.approx(4 * 2 * (7 / 8) * 2 * 4096 / 0.77 * (1 / 100e9 - 1 / 300e9))
    assert across.fixed > inside.fixed


def test_a_tp_of_unknown_efficiency_is_refused():
    with pytest.raises(BadInput, match=r"tp is 3; efficiencies are known for 1, 2, 4, 8, 16"):
        roofline_price(model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 8), 3)


def test_a_faster_gpu_is_faster():
    model = model_spec("llama2_70b")
    a800, h100, h200 = (
        roofline_price(model, cluster_spec(name, 1, 8), 8) for name in ("a800_80gb", "h100_80gb", "h200")
    )

    assert a800.token > h100.token == h200.token
    assert a800.floor > h100.floor > h200.floor
