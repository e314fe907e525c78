"""Laws of deployment: placement is a partition, plans fit and are bounded, more GPUs never hurt the fluid."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import toys
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan, ReplicaConfig
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.classes import classes_of, table
from policies.deployment.expected import planning_batches
from policies.deployment.fixed import parse
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.homogeneous import Homogeneous
from policies.deployment.placement import Kind, inter_node_hops, most, place, trimmed, wording
from policies.deployment.tau import Fluid, Search, deploy
from policies.dispatch.uniform import Uniform

WIDTHS = Padded(FixedBuckets((128, 256, 512, 1024, 2048, 4096)))

powers = st.sampled_from([1, 2, 4, 8])
kinds = st.builds(Kind, st.builds(ReplicaConfig, powers, st.integers(1, 6)), st.integers(1, 9000))
wishes = st.lists(st.tuples(kinds, st.integers(1, 12)), min_size=1, max_size=6)
even = st.builds(toys.cluster, st.integers(1, 12), st.sampled_from([8, 16]))
uneven = st.lists(st.integers(1, 9), min_size=1, max_size=8).map(
    lambda sizes: replace(toys.cluster(nodes=len(sizes)), node_sizes=tuple(sizes))
)


@given(wishes, even)
@settings(max_examples=60, deadline=None)
def test_placement_on_even_nodes_is_a_partition_and_never_fails_while_there_is_room(wish, cluster):
    counts = trimmed(wish, cluster)
    assume(counts)

    placed = place(counts, cluster)

    plan = DeploymentPlan(toys.MODEL, cluster, (toys.tenant(),), placed)  # checks tp groups, nodes and double use
    used = [gpu for replica in placed for gpu in replica.gpus]
    assert sorted([*used, *plan.idle_gpus]) == list(range(cluster.gpus))
    asked = sorted((kind.config, kind.budget) for kind, count in counts for _ in range(count))
    assert sorted((replica.config, replica.budget) for replica in placed) == asked
    assert placed == place(counts, cluster)


@given(wishes, uneven)
@settings(max_examples=60, deadline=None)
def test_placement_on_uneven_nodes_is_a_partition_or_refused(wish, cluster):
    try:
        placed = place(wish, cluster)
    except Infeasible:
        return

    plan = DeploymentPlan(toys.MODEL, cluster, (toys.tenant(),), placed)
    assert len(plan.idle_gpus) + sum(kind.config.gpus * count for kind, count in wish) == cluster.gpus


@given(kinds, uneven)
@settings(max_examples=60, deadline=None)
def test_as_many_as_there_is_room_for_can_be_placed_and_not_one_more(kind, cluster):
    count = most(kind.config, cluster)

    if count:
        assert len(place([(kind, count)], cluster)) == count
    with pytest.raises(Infeasible):
        place([(kind, count + 1)], cluster)


@given(st.integers(1, 32), even)
@settings(max_examples=40, deadline=None)
def test_a_pipeline_on_an_empty_cluster_crosses_nodes_as_rarely_as_its_size_allows(stages, cluster):
    assume(stages <= cluster.gpus)

    placed = place([(Kind(ReplicaConfig(1, stages), 1), 1)], cluster)

    assert inter_node_hops(placed[0], cluster) == -(-stages // cluster.gpus_per_node) - 1


shapes = st.builds(ReplicaConfig, powers, st.integers(1, 6), st.integers(0, 4), powers)


@given(st.lists(st.tuples(shapes, st.integers(1, 12)), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_plan_in_words_is_read_back(wish):
    counts = [(Kind(config, 9), units * config.fsdp) for config, units in wish]

    assert [(one.config, one.count) for one in parse(wording(counts))] == [(kind.config, n) for kind, n in counts]


LEVELS_MEET = 1e-4  # relative: level bounds end a little before they meet

costs = st.builds(
    toys.ToyCost,
    floor=st.floats(0.0, 2.0),
    fixed=st.floats(0.0, 2.0),
    token=st.floats(1e-4, 2e-3),
    square=st.floats(0.0, 1e-6),
    tokens_per_gpu=st.sampled_from([512, 1024, 2048, 4096]),
)
workloads = st.builds(toys.workload, st.integers(0, 99))


@given(costs, workloads, st.integers(1, 14), st.integers(0, 9))
@settings(max_examples=12, deadline=None)
def test_a_plan_holds_the_longest_sequence_fits_the_cluster_and_is_bounded(cost, workload, gpus, seed):
    cluster = toys.cluster(nodes=1, gpus_per_node=gpus)
    given_all = (workload, toys.MODEL, cluster, cost)
    knobs = {"batching": WIDTHS, "dispatch": Uniform(), "batches": 2, "seed": seed}
    holds = any(cost.max_tokens(c, ()) >= 4096 and c.gpus <= gpus for c in cost.configs())
    if not holds:
        for policy in (Homogeneous(**knobs), Heterogeneous(**knobs)):
            with pytest.raises(Infeasible, match="tenant 'long'"):
                policy.plan(*given_all)
        return

    equal = Homogeneous(**knobs).plan(*given_all)
    mixed = Heterogeneous(**knobs, exchanges=2, budgets=1).plan(*given_all)

    for plan in (equal, mixed):
        assert max(replica.budget for replica in plan.replicas) >= 4096
        assert sum(replica.config.gpus for replica in plan.replicas) <= gpus
        assert plan.certificate.bound_seconds <= plan.certificate.expected_seconds
    assert mixed.certificate.expected_seconds <= equal.certificate.expected_seconds
    assert mixed.certificate.bound_seconds <= equal.certificate.bound_seconds * (1 + LEVELS_MEET)


@given(costs, workloads, st.integers(4, 12))
@settings(max_examples=10, deadline=None)
def test_one_more_gpu_never_raises_the_fluid_optimum(cost, workload, gpus):
    found = [Kind(config, cost.max_tokens(config, ())) for config in cost.configs() if config.gpus <= gpus]
    assume(any(kind.budget >= 4096 for kind in found))
    menu = DeploymentPlan(
        toys.MODEL, toys.cluster(4, 16), workload.tenants, place([(kind, 1) for kind in found], toys.cluster(4, 16))
    )
    classes = classes_of(planning_batches(workload, 2, 0), WIDTHS, menu, cost)
    prices = table(classes, found, WIDTHS, cost)

    fewer, more = (
        deploy(Fluid(prices, toys.cluster(1, size), 4096, Search(relative_gap=1e-9)), classes.counts)
        for size in (gpus, gpus + 1)
    )

    assert more.bound_seconds <= fewer.bound_seconds * (1 + 1e-6)
    assert np.isfinite(fewer.bound_seconds)
