"""Architecture constants, and models that no layout changes."""

from dataclasses import replace

import pytest
import torch

from distributed.stages import CPU, place
from distributed.worlds import CONFIG, TENANTS, spec_of
from executor.adapters import create, initial_a
from executor.config import Rope, tensor_shapes
from executor.mesh import Place
from executor.weights import RandomWeights
from lobra.errors import BadInput
from lobra.spec import TARGET_MODULES


def ratios(rope: Rope, head_size: int) -> list[float]:
    plain = replace(rope, kind="default").frequencies(head_size)
    return [scaled / usual for scaled, usual in zip(rope.frequencies(head_size), plain, strict=True)]


@pytest.mark.parametrize(
    ("head_size", "factor", "counts"), [(128, 8.0, (29, 6, 29)), (64, 32.0, (15, 3, 14))], ids=["8b", "1b"]
)
def test_llama3_scaling_keeps_blends_and_divides(head_size, factor, counts):
    found = ratios(Rope(500_000.0, "llama3", factor, 1.0, 4.0, 8192), head_size)

    kept = sum(ratio == 1 for ratio in found)
    divided = sum(abs(ratio - 1 / factor) < 1e-12 for ratio in found)
    assert (kept, len(found) - kept - divided, divided) == counts


def test_llama3_blends_as_published():
    found = ratios(Rope(500_000.0, "llama3", 8.0, 1.0, 4.0, 8192), 128)

    assert (round(found[29], 6), round(found[34], 6)) == (0.828168, 0.190211)


def test_linear_scaling_divides_every_frequency():
    assert ratios(Rope(kind="linear", factor=4.0), 8) == [0.25] * 4


def test_an_unknown_rope_is_refused():
    with pytest.raises(BadInput, match=r"kind is 'yarn'; this executor knows default, linear and llama3"):
        Rope(kind="yarn")


def test_any_part_of_a_random_tensor_equals_that_part_of_the_whole():
    weights = RandomWeights(CONFIG, 3)
    name = "model.layers.2.mlp.down_proj.weight"

    part = weights.read(name, slice(8, 24), slice(32, 64))

    assert torch.equal(part, weights.read(name)[8:24, 32:64])


def test_tensors_differ_by_name_and_by_seed():
    drawn = [
        RandomWeights(CONFIG, seed).read(f"model.layers.{layer}.self_attn.q_proj.weight")[0, 0].item()
        for seed in (0, 1)
        for layer in (0, 1)
    ]

    assert len(set(drawn)) == 4


def test_a_tied_model_has_no_head_of_its_own():
    assert "lm_head.weight" in tensor_shapes(CONFIG)
    assert "lm_head.weight" not in tensor_shapes(replace(CONFIG, tied_embeddings=True))


def test_biases_stand_where_the_architecture_has_them():
    biased = [name for name in tensor_shapes(CONFIG) if name.endswith(".bias")]

    assert len(biased) == 3 * CONFIG.layers
    assert not [name for name in tensor_shapes(replace(CONFIG, qkv_bias=False)) if name.endswith(".bias")]


@pytest.mark.parametrize("tp", [2, 4])
def test_every_layout_starts_from_the_same_adapter(tp):
    tenant = replace(TENANTS[1], target_modules=TARGET_MODULES)
    whole = create(tenant, CONFIG, place(CONFIG), torch.float64, CPU)
    for shard in range(tp):
        part = create(tenant, CONFIG, Place(0, 0, shard, tp, 1, range(4)), torch.float64, CPU)
        for where, (a, b) in part.pairs.items():
            assert torch.equal(a.value, whole.pairs[where][0].value[:, a.block.columns])
            assert bool((b.value == 0).all())


def test_a_begins_uniform_within_one_over_the_root_of_the_inputs():
    a = initial_a(replace(TENANTS[0], rank=400), 0, "q_proj", 64)

    assert 0.124 < float(a.max()) <= 0.125
    assert -0.125 <= float(a.min()) < -0.124
    assert abs(float(a.mean())) < 2e-3


def test_a_plan_for_another_model_is_refused():
    with pytest.raises(BadInput, match=r"model: layers is 4, but the plan was made for 'toy' with 6"):
        CONFIG.check_spec(replace(spec_of(CONFIG), layers=6))
