"""The paper's table of max tokens, and what lies beside it."""

import pytest

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
SIX = tuple(toys.tenant(name) for name in "abcdef")


def test_the_table_is_the_published_one(reference_data):
    rows = (reference_data / "published/max_tokens_7b_6tasks_A100-40GB.csv").read_text().split()[1:]
    published = {(tp, pp): tokens for tp, pp, tokens in (map(int, row.split(",")) for row in rows)}
    cost = cost_model(SEVEN, CLUSTER)

    assert {(config.tp, config.pp): cost.max_tokens(config, SIX) for config in cost.configs()} == published


def test_recomputation_scales_the_table_up_and_never_down():
    cost = cost_model(SEVEN, CLUSTER)

    room = [cost.max_tokens(ReplicaConfig(1, 1, recompute), SIX) for recompute in range(33)]

    assert room[0] == 2048
    assert room == sorted(room)
    assert room[32] == 16384


def test_where_asked_for_lighter_tenants_keep_the_table_and_heavier_ones_get_less():
    cost = cost_model(SEVEN, CLUSTER, memory="scaled")
    twelve = tuple(toys.tenant(f"t{number}") for number in range(12))
    hundred = tuple(toys.tenant(f"t{number}") for number in range(100))

    assert [cost.max_tokens(ReplicaConfig(1, 1), who) for who in (SIX[:1], SIX, twelve, hundred)] == [
        2048,
        2048,
        1024,
        0,
    ]


@pytest.mark.parametrize("memory", ["auto", "table"])
def test_the_table_as_it_stands_is_the_same_for_everybody(memory: str):
    cost = cost_model(SEVEN, CLUSTER, memory=memory)
    twelve = tuple(toys.tenant(f"t{number}") for number in range(12))

    assert cost.max_tokens(ReplicaConfig(1, 1), twelve) == 2048


def test_other_tenants_than_the_papers_are_noted():
    cost = cost_model(SEVEN, CLUSTER)

    assert not any("6 tasks" in note for note in cost.provenance(ReplicaConfig(1, 1), SIX).notes)
    assert any("6 tasks" in note for note in cost.provenance(ReplicaConfig(1, 1), SIX[:5]).notes)
    assert any(
        "6 tasks" in note for note in cost.provenance(ReplicaConfig(1, 1), (*SIX[:5], toys.tenant("f", rank=8))).notes
    )


def test_the_note_of_scaling_stands_only_where_it_was_done():
    twelve = tuple(toys.tenant(f"t{number}") for number in range(12))

    scaled, auto = (cost_model(SEVEN, CLUSTER, memory=memory) for memory in ("scaled", "auto"))

    assert any("scaled down" in note for note in scaled.provenance(ReplicaConfig(1, 1), twelve).notes)
    assert not any("scaled down" in note for note in auto.provenance(ReplicaConfig(1, 1), twelve).notes)


def test_finer_rounding_gives_recomputation_its_full_room():
    coarse, fine = (cost_model(SEVEN, CLUSTER, rounding=rounding) for rounding in ("power_of_two", "multiple"))
    config = ReplicaConfig(1, 1, recompute=32)

    assert coarse.max_tokens(config, SIX) < fine.max_tokens(config, SIX) < 2 * coarse.max_tokens(config, SIX)
    assert fine.max_tokens(config, SIX) % 128 == 0


def test_a_configuration_outside_the_table_is_refused_by_name():
    with pytest.raises(BadInput, match=r"the table of max tokens has no <8,4>; it has <1,1>"):
        cost_model(SEVEN, CLUSTER).max_tokens(ReplicaConfig(8, 4), SIX)
