"""Activations between stages and gradients between replicas, by hand: 300 and 25 GB/s, 0.77 of it achieved."""

import pytest

import toys
from costmodel.exchange import synchronise_seconds, transfer_seconds
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape

SHAPE = Shape(rows=1, width=1000, tokens=1000, useful=1000, squares=10**6, runs=1, shards=1)


def test_one_stage_hands_on_nothing():
    assert transfer_seconds(toys.plan((4, 1, 1)), 0, SHAPE) == 0.0


def test_stages_of_one_node_use_the_link_inside_it():
    assert transfer_seconds(toys.plan((2, 2, 1)), 0, SHAPE) == pytest.approx(2 * 64 * 1000 / 2 / (300e9 * 0.77) + 5e-6)


def test_one_boundary_between_nodes_makes_it_the_slow_link():
    assert transfer_seconds(toys.plan((4, 4, 1)), 0, SHAPE) == pytest.approx(2 * 64 * 1000 / 4 / (25e9 * 0.77) + 1e-5)


def test_shards_hand_on_a_part_each():
    whole = transfer_seconds(toys.plan((1, 2, 1)), 0, SHAPE) - 5e-6
    shared = transfer_seconds(toys.plan((1, 2, 1)), 0, SHAPE._replace(shards=4)) - 5e-6

    assert shared == pytest.approx(whole / 4)


def adapters() -> int:
    """Trained parameters of a layer of the toy model at rank 16."""
    return 16 * (4 * 2 * 64 + 3 * (64 + 128))


def test_one_replica_only_updates():
    assert synchronise_seconds(toys.plan((1, 1, 1))) == pytest.approx(28 * 8 * adapters() / 1555e9)


def test_two_replicas_sum_their_gradients_on_the_slowest_link_between_them():
    size = 2 * 8 * adapters()
    inside, across = toys.plan((1, 1, 2)), toys.plan((1, 1, 9))
    update = synchronise_seconds(toys.plan((1, 1, 1)))

    assert synchronise_seconds(inside) - update == pytest.approx(size / (300e9 * 0.77) + 2 * 5e-6)
    assert synchronise_seconds(across) > synchronise_seconds(inside) + size / (25e9 * 0.77)


def test_every_tenant_has_gradients_of_its_own():
    one = synchronise_seconds(toys.plan((1, 1, 1)))
    two = synchronise_seconds(toys.plan((1, 1, 1), tenants=(toys.tenant("a"), toys.tenant("b", rank=32))))

    assert two == pytest.approx(3 * one)


def test_an_own_cut_counts_its_largest_stage():
    even = toys.plan((1, 2, 1))
    uneven = DeploymentPlan(
        even.model, even.cluster, even.tenants, (Replica(ReplicaConfig(1, 2), (0, 1), 1024, layers=(0, 6)),)
    )

    assert synchronise_seconds(uneven) == pytest.approx(synchronise_seconds(even) * 6 / 4)
