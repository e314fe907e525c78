"""What a re-deployment sends, by hand and against a slow account of every slice."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.communication import bytes_per_second
from costmodel.memory import adapter_parameters
from costmodel.moving import Moving, move, move_seconds
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig
from lobra.schedule import even_cut
from toys import MODEL, cluster, plan, replicas, tenant

KINDS = st.sampled_from([(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (1, 4)])
SHAPES = (
    st.lists(KINDS, min_size=1, max_size=4)
    .map(lambda shapes: sorted(shapes, reverse=True))
    .filter(lambda shapes: sum(tp * pp for tp, pp in shapes) <= 16)
)
TABLE = 2 * MODEL.vocabulary * MODEL.hidden
LAYER = 2 * MODEL.layer_parameters
HEAD = TABLE + 2 * MODEL.hidden


def deployed(shapes, tenants=()):
    return plan(*((tp, pp, 1) for tp, pp in shapes), tenants=tenants)


def slices(deployment: DeploymentPlan, gpu: int) -> dict[int, tuple[Fraction, Fraction]]:
    """The part of every row (layers, embedding, head) that a GPU holds, as an interval."""
    for replica in deployment.replicas:
        if gpu in replica.gpus:
            stage, shard = divmod(replica.gpus.index(gpu), replica.config.tp)
            cut = (*even_cut(deployment.model.layers, replica.config.pp), deployment.model.layers)
            rows = list(range(cut[stage], cut[stage + 1]))
            rows += [deployment.model.layers] * (stage == 0)
            rows += [deployment.model.layers + 1] * (stage == replica.config.pp - 1)
            part = Fraction(shard, replica.config.tp), Fraction(shard + 1, replica.config.tp)
            return dict.fromkeys(rows, part)
    return {}


def lacking(before: DeploymentPlan, after: DeploymentPlan, gpu: int, sizes: dict[int, float]) -> float:
    """Bytes of the new slices outside the old ones."""
    total, old = 0.0, slices(before, gpu)
    for row, (low, high) in slices(after, gpu).items():
        kept = Fraction(0)
        if row in old:
            kept = max(Fraction(0), min(high, old[row][1]) - max(low, old[row][0]))
        total += float(high - low - kept) * sizes.get(row, 0.0)
    return total


@settings(max_examples=40, deadline=None)
@given(SHAPES, SHAPES)
def test_every_gpu_receives_exactly_what_it_lacks(old, new):
    tenants = (tenant("a", rank=8), tenant("b", rank=4))
    before, after = deployed(old, tenants), deployed(new, tenants)
    found = move(before, after)
    weights = dict.fromkeys(range(8), LAYER) | {8: TABLE, 9: HEAD}
    state = {row: 14 * sum(adapter_parameters(MODEL, each) for each in tenants) for row in range(8)}
    for gpu in range(16):
        assert found.weight_bytes[gpu] == pytest.approx(lacking(before, after, gpu, weights))
        assert found.state_bytes[gpu] == pytest.approx(lacking(before, after, gpu, state))
        assert 0 <= found.crossing_bytes[gpu] <= found.received[gpu] * (1 + 1e-12)


@settings(max_examples=20, deadline=None)
@given(SHAPES)
def test_nothing_moves_between_identical_plans(shapes):
    same = deployed(shapes)
    found = move(same, same)
    assert (found.received.sum(), found.seconds, found.changed) == (0.0, 0.0, ())
    assert found.staying == tuple(range(len(same.replicas)))
    assert Moving(7.0)(same, same) == 0.0


def test_the_last_gpu_to_be_served_decides_and_its_link_prices_it():
    before, after = plan((8, 1, 1)), plan((8, 1, 2))
    found = move(before, after)
    whole = (8 * LAYER + TABLE + HEAD + 8 * 14 * adapter_parameters(MODEL, tenant())) / 8
    assert np.allclose(found.received, [0] * 8 + [whole] * 8)
    assert np.allclose(found.crossing_bytes, found.received)  # the second node held nothing
    link = cluster().inter_node
    assert found.seconds == pytest.approx(whole / bytes_per_second(link) + link.latency_microseconds * 1e-6)
    assert found.staying == (0,)
    assert found.changed == tuple(range(8, 16))


def test_what_a_neighbour_holds_comes_over_the_fast_link():
    before, after = plan((1, 1, 1)), plan((1, 1, 2))
    found = move(before, after)
    assert found.crossing_bytes.sum() == 0.0
    assert found.received[1] > 0
    assert found.seconds < move(before, DeploymentPlan(
        MODEL, cluster(), before.tenants, (before.replicas[0], Replica(ReplicaConfig(1, 1), (8,), 1024))
    )).seconds  # fmt: skip


def test_adapters_of_tenants_who_arrive_are_made_in_place():
    one, both = plan((1, 1, 1)), plan((2, 1, 1), tenants=(tenant(), tenant("new", rank=64)))
    assert move(one, both).state_bytes.sum() == move(one, plan((2, 1, 1))).state_bytes.sum()


def test_recomputation_and_budgets_move_nothing():
    before = plan((2, 1, 4))
    other = tuple(
        replace(each, config=ReplicaConfig(2, 1, recompute=8), budget=each.budget * 2) for each in before.replicas
    )
    after = replace(before, replicas=other)
    assert move_seconds(before, after) == 0.0
    assert Moving(7.0)(before, after) == 0.0


def test_fixed_seconds_are_paid_by_every_move_that_changes_a_place():
    before, after = plan((8, 1, 1)), plan((4, 1, 2))
    assert Moving(7.0)(before, after) == 7.0 + move_seconds(before, after)


def test_sharded_weights_are_received_in_parts():
    whole = plan((1, 1, 2))
    config = ReplicaConfig(1, 1, fsdp=2)
    parts = replace(whole, replicas=tuple(replace(each, config=config) for each in whole.replicas))
    assert move(whole, parts).received.sum() == 0.0  # each drops a half
    assert move(parts, whole).weight_bytes.tolist()[:2] == pytest.approx([(8 * LAYER + TABLE + HEAD) / 2] * 2)
    assert move(parts, whole).state_bytes.sum() == 0.0


def test_tied_tables_are_received_once():
    tied = replace(MODEL, tied_embeddings=True)
    before, after = (
        DeploymentPlan(tied, cluster(), (tenant(),), replicas(*shapes)) for shapes in ([(1, 1, 1)], [(1, 1, 2)])
    )
    assert move(before, after).weight_bytes[1] == pytest.approx(8 * LAYER + TABLE + 2 * MODEL.hidden)


def test_a_run_keeps_its_model_and_its_cluster():
    one = plan((1, 1, 1))
    other = DeploymentPlan(MODEL, cluster(1), one.tenants, one.replicas)
    with pytest.raises(BadInput, match="a run keeps its model and its cluster"):
        move(one, other)
    with pytest.raises(BadInput, match="deploy_seconds is -1"):
        Moving(-1.0)
