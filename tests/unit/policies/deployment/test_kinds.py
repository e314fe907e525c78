"""Kinds: which configurations, with which budgets."""

import pytest

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from policies.deployment.kinds import Space, kinds
from policies.deployment.placement import Kind

TENANTS = (toys.tenant(),)


def found(space, *, cluster=None, **cost):
    chosen = kinds(space, toys.MODEL, cluster or toys.cluster(), TENANTS, toys.ToyCost(**cost))
    return [(str(kind.config), kind.budget) for kind in chosen]


def test_every_priced_configuration_is_a_kind_with_what_fits():
    assert found(Space(), shapes=((1, 1), (4, 2))) == [("<1,1>", 1024), ("<4,2>", 4096)]


def test_pipelines_come_with_smaller_budgets_too():
    assert found(Space(budgets=3), shapes=((2, 1), (2, 2))) == [
        ("<2,1>", 2048),
        ("<2,2>", 2048),
        ("<2,2>", 1024),
        ("<2,2>", 512),
    ]


def test_recomputation_covers_the_layers_of_the_largest_stage():
    space = Space(recompute="full")

    chosen = kinds(space, toys.MODEL, toys.cluster(), TENANTS, toys.ToyCost(shapes=((1, 1), (1, 3))))

    assert [kind.config.recompute for kind in chosen] == [0, 8, 0, 3]
    assert chosen[1] == Kind(ReplicaConfig(1, 1, recompute=8), 2048)


def test_some_layers_may_be_recomputed_a_quarter_of_a_stage_at_a_time():
    chosen = kinds(Space(recompute="some"), toys.MODEL, toys.cluster(), TENANTS, toys.ToyCost(shapes=((1, 1), (1, 3))))

    assert [kind.config.recompute for kind in chosen] == [0, 2, 4, 6, 8, 0, 1, 2, 3]


def test_weights_may_be_shared_by_two_four_and_more_equal_replicas_where_so_many_have_room():
    space = Space(fsdp=8)

    chosen = kinds(space, toys.MODEL, toys.cluster(1, 8), TENANTS, toys.ToyCost(shapes=((1, 1), (4, 1))))

    assert [str(kind.config) for kind in chosen] == [
        "<1,1>",
        "<1,1,fsdp2>",
        "<1,1,fsdp4>",
        "<1,1,fsdp8>",
        "<4,1>",
        "<4,1,fsdp2>",
    ]


@pytest.mark.parametrize("space", [Space(recompute="some"), Space(recompute="full"), Space(fsdp=2)], ids=str)
def test_the_papers_form_refuses_what_it_does_not_price(space):
    cost = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8), form="paper")

    with pytest.raises(BadInput, match="which the form does not price; use recompute 0 and fsdp 1, or form=floor"):
        kinds(space, model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8), TENANTS, cost)


def test_partial_recomputation_holds_more_the_more_is_recomputed():
    model, cluster = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
    cost = cost_model(model, cluster, form="roofline", memory="analytic")

    chosen = kinds(Space(((1, 1),), "some"), model, cluster, TENANTS, cost)

    budgets = [kind.budget for kind in chosen]
    assert [kind.config.recompute for kind in chosen] == [0, 8, 16, 24, 32]
    assert budgets == sorted(budgets)
    assert budgets[0] < budgets[2] < budgets[4]


def test_what_holds_no_token_or_has_no_place_is_no_kind():
    assert found(Space(), tokens_per_gpu=0) == []
    assert found(Space(), shapes=((8, 1), (16, 1), (32, 1), (8, 4))) == [("<8,1>", 8192), ("<16,1>", 16384)]
    assert found(Space(), shapes=((1, 9), (1, 8))) == [("<1,8>", 1024)]


def test_candidates_restrict_the_choice_in_their_order():
    assert found(Space(candidates=((4, 1), (1, 1), (4, 1)))) == [("<4,1>", 4096), ("<1,1>", 1024)]


def test_an_unknown_candidate_is_refused_with_those_that_are_known():
    with pytest.raises(BadInput, match=r"<3,1> is unknown to the cost model; choose from <1,1> <2,2>"):
        found(Space(candidates=((3, 1),)), shapes=((1, 1), (2, 2)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"recompute": "half"}, "recompute is 'half'; choose none, some or full"),
        ({"fsdp": 0}, "fsdp is 0"),
        ({"budgets": 0}, "budgets is 0; a pipeline has 1 to 8"),
        ({"candidates": ()}, "candidates is empty"),
    ],
)
def test_a_wrong_space_is_refused(wrong, message):
    with pytest.raises(BadInput, match=message):
        Space(**wrong)
