"""Kinds: which configurations, with which budgets."""

import pytest

import toys
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
        ({"recompute": "some"}, "recompute is 'some'; choose none or full"),
        ({"budgets": 0}, "budgets is 0; a pipeline has 1 to 8"),
        ({"candidates": ()}, "candidates is empty"),
    ],
)
def test_a_wrong_space_is_refused(wrong, message):
    with pytest.raises(BadInput, match=message):
        Space(**wrong)
