"""Which form and which memory apply."""

from dataclasses import replace

import numpy as np
import pytest

import toys
from costmodel import cost_model, least_gpus
from costmodel.catalogue import possible_configs, tensor_groups
from costmodel.hardware import cluster_spec, model_spec
from costmodel.knotted import KnottedCost, head_layers
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape
from lobra.spec import ModelSpec

SEVEN, SEVENTY = model_spec("llama2_7b"), model_spec("llama2_70b")
CLUSTER = cluster_spec("a100_40gb", 2, 8)
FOUR = tuple(toys.tenant(name) for name in "abcd")


def status(cost) -> str:
    return cost.provenance(cost.configs()[0], FOUR).status


def test_the_profiled_pair_gets_fitted_times_and_every_other_one_a_roofline():
    assert status(cost_model(SEVEN, CLUSTER, form="floor")) == "measured"
    assert status(cost_model(SEVEN, CLUSTER)) == "derived"  # a head nobody timed
    assert status(cost_model(SEVEN, cluster_spec("a100_80gb", 2, 8))) == "roofline"
    assert status(cost_model(SEVENTY, cluster_spec("a800_80gb", 8, 8))) == "roofline"
    assert status(cost_model(SEVEN, CLUSTER, form="roofline")) == "roofline"


def test_hardware_or_model_that_was_changed_is_not_the_profiled_one():
    assert status(cost_model(SEVEN, cluster_spec("a100_40gb", 2, 8, memory_gib=48))) == "roofline"
    assert status(cost_model(SEVEN, cluster_spec("a100_40gb", 2, 8, intra_gigabytes_per_second=50))) == "roofline"
    assert status(cost_model(replace(SEVEN, layers=16), CLUSTER)) == "roofline"
    assert status(cost_model(SEVEN, cluster_spec("a100_40gb", 2, 8, inter_gigabytes_per_second=12.5))) == "derived"


def test_the_default_is_the_form_with_knots_and_a_head_where_there_are_curves():
    assert cost_model(SEVEN, CLUSTER) == cost_model(SEVEN, CLUSTER, form="knots")
    assert isinstance(cost_model(SEVEN, CLUSTER), KnottedCost)


def test_only_layers_alone_and_the_papers_form_have_no_head():
    heads = {
        form: any(
            "head:" in note
            for note in cost_model(SEVEN, CLUSTER, form=form).provenance(ReplicaConfig(1, 1), FOUR).notes
        )
        for form in ("auto", "knots", "roofline", "floor", "paper")
    }

    assert heads == {"auto": True, "knots": True, "roofline": True, "floor": False, "paper": False}


@pytest.mark.parametrize(("model", "least"), [("llama2_70b", 0.31), ("qwen_32b", 1.91)])
def test_a_roofline_has_a_head_on_the_last_stage_that_planners_see_too(model: str, least: float):
    """About as heavy as its weights, in layers: a layer's token has adapters and attention, the head's has the loss."""
    cost, config = cost_model(model_spec(model), cluster_spec("h200", 2, 8), form="roofline"), ReplicaConfig(1, 4)
    bare = replace(cost, planned=replace(cost.layered, head={}))
    shape = Shape(1, 8192, 8192, 8192, 8192**2, 1, 1)

    def stages(each) -> list[float]:
        place = Replica(config, (0, 1, 2, 3), 8192)
        return [
            sum(each.stage_seconds(place, stage, shape, way) for way in ("forward", "backward")) for stage in (0, 3)
        ]

    head = cost.layered.head[1] * cost.layered.price(config, 1).token * 8192
    rows = [float(each.rates(config, np.array([8192])).row[0]) for each in (cost, bare)]
    assert cost.layered.head[1] == pytest.approx(least, rel=0.1)
    assert stages(cost)[0] == stages(bare)[0]
    assert stages(cost)[1] - stages(bare)[1] == pytest.approx(head)
    assert rows[0] - rows[1] == pytest.approx(head)


def test_the_plain_rooflines_head_is_its_matrix():
    cost = cost_model(model_spec("demo"), cluster_spec("cpu", 1, 4))
    model = model_spec("demo")

    assert cost.head[1] * cost.prices[1, 1, False].token == pytest.approx(4 * 256 * 512 / (0.05e12 * 0.55))
    assert cost.head[1] < head_layers(model)  # a layer has its adapters too


def test_the_candidates_of_the_paper_are_its_fourteen_entries():
    assert len(cost_model(SEVEN, CLUSTER).configs()) == 14
    assert cost_model(SEVEN, CLUSTER, form="paper").configs() == cost_model(SEVEN, CLUSTER).configs()


def test_a_smaller_cluster_has_fewer_candidates():
    configs = cost_model(SEVEN, cluster_spec("a100_40gb", 1, 4)).configs()

    assert [str(config) for config in configs] == ["<1,1>", "<1,2>", "<2,1>", "<1,4>", "<2,2>", "<4,1>"]


def test_candidates_of_70b_hold_its_weights_and_include_the_papers():
    cost = cost_model(SEVENTY, cluster_spec("a800_80gb", 8, 8))
    names = {str(config) for config in cost.configs()}

    assert {"<2,4>", "<4,2>", "<8,1>", "<16,1>"} <= names
    assert not {"<1,1>", "<3,1>"} & names
    assert all(cost.max_tokens(config, ()) > 0 for config in cost.configs())


def test_candidates_can_be_restricted_and_keep_the_order_asked_for():
    cost = cost_model(SEVEN, CLUSTER, configs=((8, 1), (1, 1), (8, 1)))

    assert cost.configs() == (ReplicaConfig(8, 1), ReplicaConfig(1, 1))


@pytest.mark.parametrize(("layers", "depths"), [(60, [1, 2, 3, 4, 5, 6, 10, 12, 15]), (32, [1, 2, 4, 8, 16])])
def test_stages_divide_the_layers(layers: int, depths: list[int]):
    model = ModelSpec("m", layers, 64, 128, 8, 8, 100)

    assert [config.pp for config in possible_configs(model, toys.cluster(8, 8), [1])] == depths


def test_tp_divides_the_heads_and_copies_few_key_heads():
    few = ModelSpec("few", 8, 64, 128, heads=8, kv_heads=2, vocabulary=100)
    odd = ModelSpec("odd", 8, 52 * 8, 128, heads=52, kv_heads=52, vocabulary=100)

    assert {config.tp for config in possible_configs(few, toys.cluster(), (1, 2, 4, 8, 16))} == {1, 2, 4, 8}
    assert {config.tp for config in possible_configs(odd, toys.cluster(), (1, 2, 4, 8, 16))} == {1, 2, 4}


def test_tensor_groups_lie_in_a_node_or_fill_whole_ones():
    uneven = cluster_spec("a100_40gb", 2, 4, node_sizes=(3, 5))

    assert [tensor_groups(toys.cluster(2, 8), tp) for tp in (1, 8, 16, 12)] == [16, 2, 1, 0]
    assert [tensor_groups(uneven, tp) for tp in (1, 2, 4, 8)] == [8, 3, 1, 0]


def test_tp_over_two_nodes_is_no_candidate_of_the_profile_and_dear_on_the_roofline():
    small = cluster_spec("a100_40gb", 2, 4)

    assert max(config.tp for config in cost_model(SEVEN, small).configs()) == 4
    roofline = cost_model(SEVEN, small, form="roofline", memory="analytic")
    one_node = cost_model(SEVEN, cluster_spec("a100_40gb", 1, 8), form="roofline", memory="analytic")
    across, inside = (cost.rates(ReplicaConfig(8, 1), np.array([2048])).row[0] for cost in (roofline, one_node))
    assert ReplicaConfig(8, 1) in roofline.configs()
    assert across > 1.2 * inside


def test_a_model_too_large_for_its_cluster_has_no_candidates_and_a_smallest_cluster():
    small = cluster_spec("a100_40gb", 1, 2)

    assert cost_model(SEVENTY, small).configs() == ()
    assert least_gpus(SEVENTY, small, FOUR) == 4
    assert [least_gpus(SEVENTY, small, FOUR, tokens) for tokens in (2048, 4096)] == [8, 16]
    assert least_gpus(SEVENTY, small, FOUR, tokens=10**9) is None


def test_the_least_gpus_of_7b_grow_with_the_length():
    least = [least_gpus(SEVEN, CLUSTER, FOUR, tokens) for tokens in (2048, 4096, 8192, 16384)]

    assert least == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"form": "flor"}, "form: there is no 'flor'; did you mean floor"),
        ({"memory": "tabel"}, "memory: there is no 'tabel'; did you mean table"),
        ({"rounding": "up"}, "rounding: there is no 'up'; choose one of auto, multiple, power_of_two"),
        ({"configs": ((16, 1),)}, "configs: <16,1> cannot be priced or placed here; choose among <1,1>"),
        ({"reserve": 2.0}, "reserve is 2.0"),
    ],
)
def test_wrong_knobs_are_refused_with_a_way_out(ask, message):
    with pytest.raises(BadInput, match=message):
        cost_model(SEVEN, CLUSTER, **ask)


@pytest.mark.parametrize("ask", [{"form": "floor"}, {"form": "paper"}, {"memory": "table"}])
def test_a_form_without_a_source_is_refused(ask):
    with pytest.raises(BadInput, match="there is no such source for model 'llama2_70b' on GPU 'H200'"):
        cost_model(SEVENTY, cluster_spec("h200", 1, 8), **ask)
