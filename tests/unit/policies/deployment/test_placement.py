"""Placement: tp groups inside nodes, few hops, no GPU twice, nothing above the cluster."""

import time
from dataclasses import replace

import pytest

import toys
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan, ReplicaConfig
from policies.deployment.placement import Kind, inter_node_hops, most, place, trimmed, wording


def kind(tp, pp, budget=1024):
    return Kind(ReplicaConfig(tp, pp), budget)


def uneven(*sizes):
    return replace(toys.cluster(nodes=len(sizes)), node_sizes=sizes)


def test_kinds_are_placed_by_tp_largest_first():
    placed = place([(kind(1, 1), 2), (kind(8, 1), 1), (kind(2, 1), 1)], toys.cluster())

    assert [(replica.config.tp, replica.gpus) for replica in placed] == [
        (8, tuple(range(8))),
        (2, (8, 9)),
        (1, (10,)),
        (1, (11,)),
    ]


def test_unused_gpus_stay_idle():
    plan = DeploymentPlan(toys.MODEL, toys.cluster(), (toys.tenant(),), place([(kind(4, 1), 3)], toys.cluster()))

    assert plan.idle_gpus == (12, 13, 14, 15)


def test_a_pipeline_goes_where_it_has_room_in_one_node():
    placed = place([(kind(2, 1), 3), (kind(1, 6), 1)], toys.cluster())

    assert placed[-1].gpus == (8, 9, 10, 11, 12, 13)
    assert inter_node_hops(placed[-1], toys.cluster()) == 0


def test_a_pipeline_larger_than_a_node_crosses_as_rarely_as_possible():
    cluster = toys.cluster(nodes=4)

    placed = place([(kind(1, 32), 1)], cluster)

    assert inter_node_hops(placed[0], cluster) == 3


def test_a_tp_group_wider_than_a_node_fills_whole_nodes():
    placed = place([(kind(1, 1), 8), (kind(16, 1), 1)], toys.cluster(nodes=3))

    assert placed[0].gpus == tuple(range(16))
    assert [replica.gpus for replica in placed[1:]] == [(gpu,) for gpu in range(16, 24)]


def test_a_wide_tp_group_on_uneven_nodes_takes_those_that_sum_to_it():
    placed = place([(kind(8, 1), 1), (kind(2, 1), 2)], uneven(4, 3, 5))

    assert placed[0].gpus == (4, 5, 6, 7, 8, 9, 10, 11)
    assert [replica.gpus for replica in placed[1:]] == [(0, 1), (2, 3)]


def test_a_wide_tp_group_that_no_nodes_sum_to_is_refused():
    with pytest.raises(Infeasible, match=r"only 0 of 1 replicas <7,1> .* 1 x 5, 1 x 3 GPUs"):
        place([(kind(7, 1), 1)], uneven(5, 3))


def test_a_tp_group_never_spans_a_part_of_a_node():
    with pytest.raises(Infeasible, match=r"only 1 of 2 replicas <4,1> could be placed .* 1 x 5, 1 x 3"):
        place([(kind(4, 1), 2)], uneven(3, 5))


def test_more_gpus_than_there_are_is_refused_with_what_fits():
    with pytest.raises(Infeasible, match=r"need 24 GPUs, but cluster 'toy' has 16; at most 8,1x2 would fit"):
        place([(kind(8, 1), 3)], toys.cluster())


@pytest.mark.parametrize(
    ("config", "sizes", "expected"),
    [
        ((1, 1), (8, 8), 16),
        ((8, 2), (8, 8), 1),
        ((2, 3), (3, 5), 1),
        ((4, 1), (3, 5), 1),
        ((3, 1), (8, 8), 4),
        ((16, 1), (8, 8, 8), 1),
        ((16, 2), (8, 8, 8), 0),
        ((12, 1), (8, 8), 0),
        ((8, 1), (3, 5, 5, 3), 2),
    ],
)
def test_most_counts_what_can_be_placed(config, sizes, expected):
    assert most(ReplicaConfig(*config), uneven(*sizes)) == expected

    if expected:
        assert len(place([(kind(*config), expected)], uneven(*sizes))) == expected
    with pytest.raises(Infeasible):
        place([(kind(*config), expected + 1)], uneven(*sizes))


def test_trimming_keeps_the_order_of_a_wish_and_never_adds():
    wish = [(kind(8, 1), 1), (kind(4, 1), 9), (kind(1, 1), 3)]

    assert trimmed(wish, toys.cluster()) == ((kind(8, 1), 1), (kind(4, 1), 2))
    assert wording(trimmed(wish, toys.cluster())) == "8,1x1;4,1x2"


def test_wording_tells_kinds_of_one_configuration_apart():
    counts = [(Kind(ReplicaConfig(1, 1, recompute=8), 2048), 2), (kind(1, 1), 3)]

    assert wording(counts) == "1,1,r8x2;1,1x3"


def test_sixteen_thousand_gpus_are_placed_in_a_moment():
    cluster = toys.cluster(nodes=2048)
    counts = [(kind(16, 1), 128), (kind(8, 1), 256), (kind(2, 4), 512), (kind(1, 6), 512), (kind(1, 1), 5120)]

    start = time.process_time()
    placed = place(counts, cluster)

    assert sum(replica.config.gpus for replica in placed) == 2048 + 2048 + 4096 + 3072 + 5120 == 16384
    assert time.process_time() - start < 2
