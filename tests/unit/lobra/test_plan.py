"""Plans that cannot be run cannot be made."""

import pytest

from lobra.errors import BadInput
from lobra.plan import Certificate, DeploymentPlan, MicroBatch, Replica, ReplicaConfig, Shape, StepPlan
from lobra.spec import SequenceRef
from toys import MODEL, cluster, plan, replicas, tenant


def sequence(length: int, tenant: int = 0, index: int = 0) -> SequenceRef:
    return SequenceRef(tenant, index, length, length)


def test_a_plan_tells_its_shape_in_the_papers_notation():
    assert plan((1, 1, 6), (2, 1, 1), (8, 1, 1)).summary() == "<1,1>x6 <2,1>x1 <8,1>x1"


def test_budgets_are_shown_where_they_tell_replicas_apart():
    small, large = Replica(ReplicaConfig(1, 2), (0, 1), 512), Replica(ReplicaConfig(1, 2), (2, 3), 1024)

    assert DeploymentPlan(MODEL, cluster(), (tenant(),), (small, large)).summary() == "<1,2>/512x1 <1,2>/1024x1"


def test_recomputation_and_sharded_weights_are_part_of_the_notation():
    assert str(ReplicaConfig(1, 1, recompute=8)) == "<1,1,r8>"
    assert str(ReplicaConfig(2, 1, fsdp=4)) == "<2,1,fsdp4>"


def test_gpus_that_no_replica_uses_are_named():
    assert plan((2, 1, 7)).idle_gpus == (14, 15)


def test_a_plan_larger_than_its_cluster_is_refused():
    with pytest.raises(BadInput, match="the plan uses 17 GPUs, but cluster 'toy' has 16"):
        plan((1, 1, 17))


def test_a_gpu_serves_one_replica():
    with pytest.raises(BadInput, match="GPU 0 belongs to two replicas"):
        DeploymentPlan(MODEL, cluster(), (tenant(),), replicas((1, 1, 1)) * 2)


def test_a_rank_outside_the_cluster_is_refused():
    with pytest.raises(BadInput, match=r"0\.\.15"):
        DeploymentPlan(MODEL, cluster(), (tenant(),), (Replica(ReplicaConfig(1, 1), (16,), 8),))


def test_a_place_must_name_every_gpu_of_the_replica():
    with pytest.raises(BadInput, match="needs 4 GPUs, but its place names 3"):
        Replica(ReplicaConfig(2, 2), (0, 1, 2), 8)


def test_a_tp_group_stays_in_one_node_or_fills_whole_nodes():
    across = Replica(ReplicaConfig(2, 1), (7, 8), 8)
    whole = Replica(ReplicaConfig(16, 1), tuple(range(16)), 8)

    assert DeploymentPlan(MODEL, cluster(), (tenant(),), (whole,)).idle_gpus == ()
    with pytest.raises(BadInput, match="keep it in one or fill them"):
        DeploymentPlan(MODEL, cluster(), (tenant(),), (across,))


def test_more_stages_than_layers_are_refused():
    with pytest.raises(BadInput, match="pp 9 exceeds the 8 layers"):
        plan((1, 9, 1))


def test_more_recomputed_layers_than_a_stage_has_are_refused():
    deep = Replica(ReplicaConfig(1, 4, recompute=3), (0, 1, 2, 3), 8)

    with pytest.raises(BadInput, match="recompute 3 exceeds the 2 layers"):
        DeploymentPlan(MODEL, cluster(), (tenant(),), (deep,))


@pytest.mark.parametrize("cut", [(0,), (1, 4), (0, 0), (4, 0)])
def test_a_layer_cut_names_the_first_layer_of_each_stage(cut: tuple[int, ...]):
    with pytest.raises(BadInput, match="first layer of each stage"):
        Replica(ReplicaConfig(1, 2), (0, 1), 8, layers=cut)


def test_sharded_weights_need_a_multiple_of_equal_replicas():
    three = tuple(Replica(ReplicaConfig(1, 1, fsdp=2), (i,), 8) for i in range(3))

    with pytest.raises(BadInput, match="3 replicas"):
        DeploymentPlan(MODEL, cluster(), (tenant(),), three)


def test_the_gap_of_a_certificate_is_relative_to_its_bound():
    assert Certificate(11.0, 10.0, "fluid", "HiGHS", "optimal", 0).gap == pytest.approx(0.1)


def test_a_padded_micro_batch_attends_over_its_width():
    microbatch = MicroBatch(((sequence(3),), (sequence(5, tenant=1),)), width=8)

    assert microbatch.shape == Shape(rows=2, width=8, tokens=16, useful=8, squares=128, runs=2, shards=1)


def test_a_packed_micro_batch_attends_within_its_sequences():
    row = (sequence(3), sequence(5), sequence(2, tenant=1))

    assert MicroBatch((row,), width=10).shape == Shape(1, 10, 10, 10, 9 + 25 + 4, runs=2, shards=1)


def test_a_shared_micro_batch_knows_how_many_share_it():
    assert MicroBatch(((sequence(3),),), 4, group=(0, 2, 3)).shape.shards == 3


def test_a_row_longer_than_the_width_is_refused():
    with pytest.raises(BadInput, match="holds 9 tokens, but its width is 8"):
        MicroBatch(((sequence(4), sequence(5)),), 8)


@pytest.mark.parametrize(
    ("rows", "group"), [((), ()), (((),), ()), (((sequence(1),),), (1,)), (((sequence(1),),), (1, 1))]
)
def test_empty_rows_and_odd_groups_are_refused(rows: tuple[tuple[SequenceRef, ...], ...], group: tuple[int, ...]):
    with pytest.raises(BadInput, match="micro-batch"):
        MicroBatch(rows, 8, group)


def test_a_step_plan_has_work_and_a_step():
    with pytest.raises(BadInput, match="work is empty"):
        StepPlan(0, ())
    with pytest.raises(BadInput, match="steps count from 0"):
        StepPlan(-1, ((),))
