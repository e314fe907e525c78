"""Seconds of messages, by hand: 100 GB/s nominal are 77 GB/s achieved."""

import pytest

import toys
from costmodel.communication import (
    all_gather_seconds,
    all_reduce_seconds,
    all_to_all_seconds,
    crosses_nodes,
    point_to_point_seconds,
    ring_seconds,
    tensor_link,
)
from lobra.plan import ReplicaConfig
from lobra.spec import Link

LINK = Link(gigabytes_per_second=100, latency_microseconds=10)


def test_one_message_is_bytes_over_bandwidth_plus_latency():
    assert point_to_point_seconds(LINK, 77e9) == pytest.approx(1 + 1e-5)


def test_a_ring_sends_every_byte_almost_twice():
    assert ring_seconds(LINK, 77e9, 4) == pytest.approx(1.5 + 6e-5)
    assert all_gather_seconds(LINK, 77e9, 4) == pytest.approx(0.75 + 3e-5)
    assert all_to_all_seconds(LINK, 77e9, 4) == pytest.approx(0.75 + 1e-5)


def test_many_members_of_a_small_message_use_a_tree():
    assert all_reduce_seconds(LINK, 0.0, 1024) == pytest.approx(20 * 1e-5)
    assert all_reduce_seconds(LINK, 77e9, 4) == ring_seconds(LINK, 77e9, 4)


@pytest.mark.parametrize("collective", [ring_seconds, all_reduce_seconds, all_gather_seconds, all_to_all_seconds])
def test_one_member_has_nobody_to_tell(collective):
    assert collective(LINK, 1e9, 1) == 0.0


@pytest.mark.parametrize("size", [0, 1024, 2**26, 2**29])
@pytest.mark.parametrize("collective", [ring_seconds, all_reduce_seconds, all_gather_seconds, all_to_all_seconds])
def test_a_larger_message_is_never_faster(collective, size):
    assert 0 <= collective(LINK, size, 8) < collective(LINK, size + 2**20, 8)
    assert 1.8 <= collective(LINK, 2**30, 8) / collective(LINK, 2**29, 8) <= 2.2


def test_a_group_in_one_node_uses_the_link_inside_it():
    cluster = toys.cluster(2, 8)

    assert tensor_link(cluster, 8) == cluster.intra_node


def test_a_group_over_whole_nodes_uses_all_their_adapters_at_most_as_fast_as_inside():
    assert tensor_link(toys.cluster(2, 8), 16).gigabytes_per_second == 8 * 25
    assert tensor_link(toys.cluster(2, 16), 32).gigabytes_per_second == 300


def test_replicas_cross_nodes_when_together_they_outgrow_one():
    cluster = toys.cluster(2, 8)

    assert not crosses_nodes(cluster, ReplicaConfig(1, 1), 8)
    assert not crosses_nodes(cluster, ReplicaConfig(2, 2), 2)
    assert crosses_nodes(cluster, ReplicaConfig(2, 2), 4)
