"""Who holds what, from the plan alone."""

import pytest
import torch

from distributed.worlds import CONFIG, LAYOUTS, plan_of
from executor.config import COLUMN_MODULES, ModelConfig
from executor.mesh import Holders, Place, holders, place_of, stage_ranks, token_slice
from executor.shards import adapter_blocks, weight_block
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig
from lobra.spec import TARGET_MODULES


def test_every_rank_finds_its_replica_stage_and_shard():
    plan = plan_of(LAYOUTS["TP2xPP2 | TP2 | TP1 | TP1"])

    places = [place_of(plan, rank) for rank in range(8)]

    assert places == [
        Place(0, 0, 0, 2, 2, range(1)),
        Place(0, 0, 1, 2, 2, range(1)),
        Place(0, 1, 0, 2, 2, range(1, 4)),
        Place(0, 1, 1, 2, 2, range(1, 4)),
        Place(1, 0, 0, 2, 1, range(4)),
        Place(1, 0, 1, 2, 1, range(4)),
        Place(2, 0, 0, 1, 1, range(4)),
        Place(3, 0, 0, 1, 1, range(4)),
    ]


def test_a_rank_of_no_replica_has_no_place():
    assert place_of(plan_of(LAYOUTS["TP1 x 4, shared"]), 5) is None


def test_layers_are_gathered_by_who_holds_them():
    assert holders(plan_of(LAYOUTS["PP3 | TP2xPP2 | TP1"])) == (
        Holders((0, 1), (0, 3, 4, 7)),
        Holders((2,), (1, 5, 6, 7)),
        Holders((3,), (2, 5, 6, 7)),
    )


def test_shards_are_numbered_as_collectives_number_ranks():
    assert stage_ranks(Replica(ReplicaConfig(2, 2), (3, 1, 0, 2), 8), 0) == (1, 3)


def test_tokens_are_cut_by_context_first_and_then_by_shard():
    slices = [
        token_slice(64, Place(member, 0, shard, 2, 1, range(4)), 2, member) for member in (0, 1) for shard in (0, 1)
    ]

    assert slices == [slice(0, 16), slice(16, 32), slice(32, 48), slice(48, 64)]


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("module", TARGET_MODULES)
def test_the_owned_blocks_of_a_matrix_cover_it_once(module, tp):
    blocks = [adapter_blocks(CONFIG, module, 6, shard, tp) for shard in range(tp)]
    weights = [weight_block(CONFIG, module, shard, tp) for shard in range(tp)]
    for parts in (*zip(*blocks, strict=True), weights):
        count = torch.zeros(parts[0].shape)
        for block in parts:
            if block.owned:
                count[block.rows, block.columns] += 1

        assert bool((count == 1).all())


def test_column_modules_split_b_and_row_modules_split_a():
    """Shapes of public case D1: in 8, out 12, rank 2, tp 2."""
    config = ModelConfig(1, 8, 12, 2, 2, 10, 4)
    column = [block.local_shape for block in adapter_blocks(config, "gate_proj", 2, 1, 2)]
    row = [block.local_shape for block in adapter_blocks(config, "o_proj", 2, 1, 2)]

    assert "gate_proj" in COLUMN_MODULES
    assert column == [(2, 8), (6, 2)]
    assert row == [(2, 4), (8, 2)]


def test_a_tp_that_cannot_split_the_model_is_refused_with_those_that_can():
    with pytest.raises(BadInput, match=r"tp 3 cannot split 8 heads, 4 kv_heads and .* 96; use one of 1, 2, 4, 8"):
        CONFIG.check_tp(3)
