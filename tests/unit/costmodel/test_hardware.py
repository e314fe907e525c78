"""Clusters and models by name."""

import pytest

from costmodel.hardware import cluster_names, cluster_spec, model_names, model_spec
from lobra.errors import BadInput


def test_every_named_cluster_can_be_built():
    names = ("a100_40gb", "a100_80gb", "a800_80gb", "cpu", "h100_80gb", "h200")

    assert cluster_names() == names
    assert [cluster_spec(name, 2, 8).gpus for name in names] == [16] * 6


def test_every_named_model_has_the_parameters_its_name_says():
    billions = {name: model_spec(name).parameters / 1e9 for name in model_names()}

    assert billions == pytest.approx(
        {"demo": 0.00321, "llama2_70b": 68.98, "llama2_7b": 6.738, "qwen_32b": 34.1}, rel=0.01
    )


def test_nvlink_of_a800_is_two_thirds_of_a100():
    a100, a800 = (cluster_spec(name, 1, 8).intra_node.gigabytes_per_second for name in ("a100_80gb", "a800_80gb"))

    assert (a100, a800) == (300, 200)


def test_single_figures_can_be_overridden_and_none_leaves_them():
    cluster = cluster_spec(
        "h200", 2, 8, inter_gigabytes_per_second=12.5, memory_gib=100, intra_latency_microseconds=1, teraflops=None
    )

    assert cluster.inter_node.gigabytes_per_second == 12.5
    assert cluster.gpu.memory_gib == 100
    assert cluster.intra_node.latency_microseconds == 1
    assert cluster.gpu.teraflops == 989


def test_nodes_may_differ_in_size():
    cluster = cluster_spec("a100_40gb", 2, 4, node_sizes=(3, 5))

    assert (cluster.gpus, cluster.node_of(2), cluster.node_of(3)) == (8, 0, 1)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: cluster_spec("a100_40g", 1, 8), "there is no 'a100_40g'; did you mean a100_40gb"),
        (lambda: cluster_spec("mainframe", 1, 8), "choose one of a100_40gb, a100_80gb"),
        (lambda: cluster_spec("h200", 1, 8, memory=3), "overrides: there is no 'memory'"),
        (lambda: cluster_spec("h200", 0, 8), "nodes is 0"),
        (lambda: cluster_spec("h200", 1, 8, memory_gib=-1), "memory_gib is -1"),
        (lambda: model_spec("llama2-7b"), "there is no 'llama2-7b'; did you mean llama2_7b"),
    ],
)
def test_wrong_names_and_figures_are_refused_with_a_way_out(ask, message):
    with pytest.raises(BadInput, match=message):
        ask()
