"""What went wrong in other planners and must not here: budgets overrun, layers lost, groups torn over slow links."""

from dataclasses import replace

import pytest

import toys
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, ReplicaConfig
from lobra.schedule import stage_sizes
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.fixed import Fixed
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.homogeneous import Homogeneous
from policies.deployment.placement import Kind, inter_node_hops, most, place, trimmed
from policies.dispatch.uniform import Uniform

WIDTHS = Padded(FixedBuckets((128, 256, 512, 1024, 2048, 4096)))
SHORT = toys.ToyWorkload((toys.tenant("short", 16, context_limit=1024),), ((60, 200, 800),))


def one_node(gpus):
    return toys.cluster(nodes=1, gpus_per_node=gpus)


def plan_of(counts, cluster):
    return DeploymentPlan(toys.MODEL, cluster, (toys.tenant(),), place(counts, cluster))


def test_a_budget_of_gpus_is_never_rounded_up():
    """ai-dynamo/dynamo PR#13144, PR#13064; llm-d/llm-d-autoscaling PR#102: five GPUs hold two replicas of two."""
    pairs = Kind(ReplicaConfig(2, 1), 2048)

    plan = plan_of([(pairs, most(pairs.config, one_node(5)))], one_node(5))

    assert (plan.summary(), plan.idle_gpus) == ("<2,1>x2", (4,))
    with pytest.raises(Infeasible, match=r"need 6 GPUs, but cluster 'toy' has 5; at most 2,1x2 would fit"):
        place([(pairs, 3)], one_node(5))


def test_shrinking_one_kind_never_grows_another():
    """superagent-ai/polyresearch PR#56: ten of 8 GPUs and one of 1 under 20 GPUs is (2, 1), never (2, 4)."""
    large, small = Kind(ReplicaConfig(8, 1), 8192), Kind(ReplicaConfig(1, 1), 1024)

    kept = trimmed([(large, 10), (small, 1)], toys.cluster(nodes=1, gpus_per_node=20))

    assert kept == ((large, 2), (small, 1))
    assert len(plan_of(kept, one_node(20)).idle_gpus) == 3
    with pytest.raises(Infeasible, match=r"need 81 GPUs, but cluster 'toy' has 20; at most 8,1x2;1,1x1 would fit"):
        Fixed("8,1x10;1,1x1").plan(SHORT, toys.MODEL, one_node(20), toys.ToyCost())


def test_a_lesser_plan_is_found_instead_of_none():
    """ai-dynamo/dynamo PR#13064: three GPUs do not hold <4,1>, but they hold <2,1> or <1,1>."""
    for policy in (Homogeneous(WIDTHS, Uniform()), Heterogeneous(WIDTHS, Uniform(), batches=1)):
        plan = policy.plan(SHORT, toys.MODEL, one_node(3), toys.ToyCost())
        assert 0 < sum(replica.config.gpus for replica in plan.replicas) <= 3


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (10, 3, (4, 3, 3)),
        (7, 2, (4, 3)),
        (62, 4, (16, 16, 15, 15)),
        (30, 4, (8, 8, 7, 7)),
    ],
)
def test_every_layer_is_in_exactly_one_stage(layers, stages, expected):
    """ml-explore/mlx-lm#1688, PR#1816: ten layers on three ranks lost two; NVIDIA/Megatron-LM#1304: 30 became 28."""
    assert stage_sizes(layers, stages) == expected
    assert sum(expected) == layers


def test_more_stages_than_layers_are_refused():
    """ml-explore/mlx-lm PR#1816: three layers do not make four stages."""
    with pytest.raises(BadInput, match=r"pp 4 cannot cut 3 layers"):
        stage_sizes(3, 4)


@pytest.mark.parametrize("gpus", [5, 7, 9, 11])
def test_every_gpu_is_used_or_named_as_idle(gpus):
    """Osmantic/ODS PR#2311, GitM-Labs/runtime PR#76: five GPUs as tp 2 x pp 2 leave one, which must be named."""
    square = Kind(ReplicaConfig(2, 2), 2048)

    plan = plan_of([(square, most(square.config, one_node(gpus)))], one_node(gpus))

    used = {gpu for replica in plan.replicas for gpu in replica.gpus}
    assert len(plan.replicas) == gpus // 4
    assert used.isdisjoint(plan.idle_gpus)
    assert used | set(plan.idle_gpus) == set(range(gpus))
    mixed = Heterogeneous(WIDTHS, Uniform(), batches=1).plan(SHORT, toys.MODEL, one_node(gpus), toys.ToyCost())
    assert sum(replica.config.gpus for replica in mixed.replicas) + len(mixed.idle_gpus) == gpus


def test_tp_groups_stay_inside_nodes_and_stages_cross_once():
    """pytorch/torchtitan#286, huggingface/picotron#17: two nodes of four, tp 2, pp 4."""
    cluster = toys.cluster(nodes=2, gpus_per_node=4)

    (replica,) = place([(Kind(ReplicaConfig(2, 4), 2048), 1)], cluster)

    groups = [replica.gpus[stage * 2 : stage * 2 + 2] for stage in range(4)]
    assert groups == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert inter_node_hops(replica, cluster) == 1


def test_thirty_two_stages_on_four_nodes_cross_three_times():
    """alpa-projects/alpa#752: 32 stages over four nodes of eight crossed five times."""
    cluster = toys.cluster(nodes=4)

    (replica,) = place([(Kind(ReplicaConfig(1, 32), 1024), 1)], cluster)

    assert inter_node_hops(replica, cluster) == 3


def test_a_tp_group_wider_than_a_node_fills_whole_nodes_or_is_refused():
    """pytorch/torchtitan#286: tp 8 over two nodes of four is priced as such; over parts of nodes it is refused."""
    (replica,) = place([(Kind(ReplicaConfig(8, 1), 8192), 1)], toys.cluster(nodes=2, gpus_per_node=4))
    assert replica.gpus == tuple(range(8))

    with pytest.raises(Infeasible, match="a tp group stays inside one node or fills whole nodes"):
        place([(Kind(ReplicaConfig(6, 1), 6144), 1)], toys.cluster(nodes=2, gpus_per_node=4))


def test_hosts_of_three_and_five_gpus_are_filled_without_tearing_a_group():
    """huggingface/picotron#17: uneven hosts."""
    hosts = replace(toys.cluster(nodes=2), node_sizes=(3, 5))

    plan = plan_of([(Kind(ReplicaConfig(2, 1), 2048), 3), (Kind(ReplicaConfig(1, 1), 1024), 2)], hosts)

    assert plan.idle_gpus == ()
    assert all(len({hosts.node_of(gpu) for gpu in replica.gpus}) == 1 for replica in plan.replicas)
    with pytest.raises(Infeasible, match="only 3 of 4 replicas <2,1>"):
        place([(Kind(ReplicaConfig(2, 1), 2048), 4)], hosts)
