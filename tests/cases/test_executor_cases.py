"""Public cases on joint training and isolation (A), tensor and pipeline parallelism (D), under their names."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from distributed.pool import shared_pool
from distributed.small_runs import ONE, PAIR, A, B, alone, equal, refs, same, step, tensors, together, updated_alike
from distributed.worlds import CONFIG, LAYOUTS, TENANTS, Job, microbatch, plan_of, random_state
from executor.config import ModelConfig, tensor_name
from executor.lora import Dropout, MaskedPiece, Slot, lora_linear
from executor.shards import adapter_blocks
from lobra.errors import BadInput
from lobra.plan import MicroBatch, StepPlan


def test_a1_a_step_of_one_adapter_leaves_the_other_and_its_norm_alone():
    mixed, results = alone((A, B), step(0, refs(0, 9, 5), refs(1, 7, 11), updates=(0,)))
    _, solo = alone((A,), step(0, refs(0, 9, 5), updates=(0,)))

    assert equal(tensors(mixed, "b"), random_state(B, CONFIG).tensors["value"])
    assert not equal(tensors(mixed, "a"), random_state(A, CONFIG).tensors["value"])
    assert results[0].gradient_norms == (solo[0].gradient_norms[0], 0.0)


def test_a2_adapters_trained_one_after_the_other_equal_two_solo_runs():
    first, second = (refs(0, 9, 5), refs(0, 6)), (refs(1, 7), refs(1, 8, 4))
    both, _ = alone((A, B), *(step(n, part) for n, part in enumerate((*first, *second))))
    for tenant, parts in ((A, first), (B, second)):
        mine = [[ref._replace(tenant=0) for ref in part] for part in parts]
        solo, _ = alone((tenant,), *(step(n, part) for n, part in enumerate(mine)))

        assert equal(tensors(both, tenant.name), tensors(solo, tenant.name))
        assert not equal(tensors(solo, tenant.name), random_state(tenant, CONFIG).tensors["value"])


def test_a3_six_adapters_in_one_pass_have_the_gradients_of_six_passes():
    tenants = tuple(replace(B, name=f"t{i}") for i in range(6))
    lengths = (3, 5, 7, 2, 4, 6)
    fused, _ = alone(tenants, step(0, [refs(i, length)[0] for i, length in enumerate(lengths)], updates=()))
    for i, length in enumerate(lengths):
        solo, _ = alone((tenants[i],), step(0, refs(0, length), updates=()))
        assert same(tensors(fused, f"t{i}", "gradient"), tensors(solo, f"t{i}", "gradient"))
        assert any(bool(value.any()) for value in tensors(solo, f"t{i}", "gradient").values())


def test_a4_a_sample_of_an_unknown_adapter_is_refused_naming_the_known():
    with pytest.raises(BadInput, match=r"a sequence belongs to tenant 2, but the plan knows 0 \(a\), 1 \(b\)"):
        alone((A, B), step(0, refs(2, 5)))
    with pytest.raises(BadInput, match=r"there is no tenant 'bb'; the plan has a, b"):
        alone((A, B))[0].export("bb")


def test_a5_a_larger_rank_may_come_later():
    engine, _ = alone((B,), step(0, refs(0, 5)))
    engine.deploy(plan_of(ONE, (B, replace(B, name="large", rank=64))))
    engine.run_step(step(1, [*refs(0, 5, first=3), *refs(1, 6)]))

    assert tensors(engine, "large")["layers.0.q_proj.A"].shape == (64, CONFIG.hidden)
    assert [adapter.updates for adapter in engine.adapters] == [2, 1]


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_a7_a_loss_and_gradient_do_not_depend_on_the_neighbours_length(packed):
    mine = refs(0, 5, 7)
    outcomes = []
    for length in (6, 64):
        engine, results = alone((A, B), step(0, [*mine, *refs(1, length)], updates=(), packed=packed))
        outcomes.append((results[0].loss_sums[0], tensors(engine, "a", "gradient")))

    assert outcomes[0][0] == pytest.approx(outcomes[1][0], rel=1e-13)
    assert same(outcomes[0][1], outcomes[1][1])
    if packed:  # not one bit changes; padded rows attend over another width
        assert equal(outcomes[0][1], outcomes[1][1])


def test_a8_the_backward_pass_remembers_the_dropout_mask():
    torch.manual_seed(0)
    x, weight = torch.randn(10, 16, dtype=torch.float64, requires_grad=True), torch.randn(8, 16, dtype=torch.float64)
    a, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 16), (8, 4)))
    mask = Dropout(0.5, range(16), 16, (MaskedPiece(11, 0, 5), MaskedPiece(12, 0, 5)))
    kept = mask.apply(torch.ones(10, 16, dtype=torch.float64), mask.mask(torch.device("cpu")))
    assert set(kept.unique().tolist()) == {0.0, 2.0}

    found, right = lora_linear(x, weight, None, [Slot(0, 10, a, b, 2.0, mask)], "loop"), x @ weight.T
    right = right + 2.0 * ((x * kept) @ a.T @ b.T)

    for mine, theirs in zip(*(torch.autograd.grad(y.square().sum(), (x, a, b)) for y in (found, right)), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-10)


def test_a9_step_counters_belong_to_the_tenant():
    steps = (
        step(0, [*refs(0, 5), *refs(1, 6)], updates=(0,)),
        step(1, refs(0, 7, first=1)),
        step(2, refs(0, 4, first=2), updates=(0,)),
    )
    engine, _ = alone((A, B), *steps)

    assert [adapter.updates for adapter in engine.adapters] == [3, 1]
    solo, _ = alone((B,), step(0, refs(0, 6)))
    assert updated_alike(tensors(engine, "b"), tensors(solo, "b"), B.learning_rate)


def test_a10_clipping_scales_each_adapter_by_its_own_norm():
    work = step(0, [*refs(0, 9, 5), *refs(1, 7)])
    free, results = alone((A, B), work)
    norms = results[0].gradient_norms
    clipped, _ = alone((replace(A, clip_norm=norms[0] / 30), replace(B, clip_norm=norms[1] * 1.01)), work)

    for name, factor in (("a", 1 / 30), ("b", 1.0)):
        expected = {where: value * factor for where, value in tensors(free, name, "mean").items()}
        assert same(tensors(clipped, name, "mean"), expected)


def test_a11_the_scaling_survives_export_and_import():
    tenant = replace(B, alpha=16.0)
    trained, _ = alone((tenant,), step(0, refs(0, 5)))
    again, _ = alone((tenant,))
    again.load(trained.export("b"))

    assert [engine.adapters[0].scale for engine in (trained, again)] == [2.0, 2.0]
    assert replace(tenant, rslora=True).alpha / math.sqrt(8) == pytest.approx(
        alone((replace(tenant, rslora=True),))[0].adapters[0].scale
    )
    last = [engine.run_step(step(1, refs(0, 6, first=4))).loss_sums for engine in (trained, again)]
    assert last[0] == last[1]
    assert equal(tensors(trained, "b"), tensors(again, "b"))


def test_a12_an_adapter_absent_from_a_rank_hangs_nobody():
    split = StepPlan(0, tuple((microbatch(refs(i, 5, 8), packed=True),) for i in (0, 1)), ())
    answer = together(PAIR, (A, B), split)[0]
    engine, _ = alone((A, B), step(0, refs(0, 5, 8), refs(1, 5, 8), updates=()))

    for name in "ab":
        found = {where: torch.from_numpy(each) for where, each in answer["states"][name]["gradient"].items()}
        assert same(found, tensors(engine, name, "gradient"))


def test_d1_shards_have_the_published_shapes_and_their_product_is_whole():
    config = ModelConfig(1, 8, 12, 2, 2, 10, 4)
    state = random_state(replace(A, rank=2), config).tensors["value"]
    for module, shapes in (("gate_proj", ((2, 8), (6, 2))), ("down_proj", ((2, 6), (8, 2)))):
        a, b = (state[f"layers.0.{module}.{letter}"] for letter in "AB")
        product = torch.zeros(config.module_shape(module), dtype=torch.float64)
        for shard in (0, 1):
            block_a, block_b = adapter_blocks(config, module, 2, shard, 2)
            assert (block_a.local_shape, block_b.local_shape) == shapes
            product[block_b.rows, block_a.columns] += b[block_b.rows] @ a[:, block_a.columns]
        assert torch.allclose(product, b @ a, rtol=1e-10)


@pytest.mark.parametrize("layout", [((2, 1, None),), ((4, 1, None),), ((2, 2, None),)], ids=["tp2", "tp4", "tp2pp2"])
def test_d2_weights_merged_from_shards_are_those_of_one_rank(layout):
    """After a step of training; a column-parallel, a row-parallel module, and one whose kv heads are replicated."""
    tenant = replace(A, target_modules=("gate_proj", "down_proj", "k_proj"))
    answer = together(layout, (tenant,), step(0, refs(0, 9, 5, 12)))[0]["states"]["a"]["value"]
    engine, _ = alone((tenant,), step(0, refs(0, 9, 5, 12)))
    weights = Job(plan_of(ONE, (tenant,)), ()).weights()

    for layer in range(CONFIG.layers):
        for module in tenant.target_modules:
            base = weights.read(f"{tensor_name(layer, module)}.weight").double()
            name = f"layers.{layer}.{module}"
            parts = tensors(engine, "a")
            expected = base + 2.0 * parts[f"{name}.B"] @ parts[f"{name}.A"]
            found = base.numpy() + 2.0 * answer[f"{name}.B"] @ answer[f"{name}.A"]
            assert np.abs(found - expected.numpy()).max() < 1e-9
            assert np.abs(found - base.numpy()).max() > 1e-3


@pytest.mark.parametrize("layout", ["TP8", "TP2xPP4", "PP3 | TP2xPP2 | TP1"])
def test_d2_d3_an_adapter_is_exported_whole_from_every_layout(layout):
    tenant = replace(TENANTS[2], target_modules=("q_proj", "k_proj", "o_proj"))
    answer = together(LAYOUTS[layout], (tenant,))[0]

    found = answer["states"]["c"]["value"]
    expected = random_state(tenant, CONFIG).tensors["value"]
    assert len(found) == 2 * 3 * CONFIG.layers
    assert {int(name.split(".")[1]) for name in found} == set(range(CONFIG.layers))
    assert all(np.array_equal(found[name], value.numpy()) for name, value in expected.items())


def test_d4_d5_ragged_and_few_micro_batches_pass_four_stages():
    """The rest of these cases is in the tests of the pipeline; here the published token counts, within a minute."""
    for lengths in ((128, 96, 160, 32, 64), (16, 8)):
        work = tuple(MicroBatch(((ref,),), ref.length) for ref in refs(0, *lengths))
        results = shared_pool().run(
            "distributed.jobs", "train", Job(plan_of(((1, 4, None),), (A,)), (StepPlan(0, (work,)),)), deadline=60
        )
        assert results[0]["results"][0].label_tokens == (sum(lengths),)


@pytest.mark.parametrize("layout", [((1, 1, None),), ((2, 1, None),), ((4, 1, None),)], ids=["tp1", "tp2", "tp4"])
def test_d6_adapters_begin_the_same_at_every_tp(layout):
    plan = plan_of(layout, (A,))
    fresh = shared_pool().run("distributed.jobs", "train", Job(plan, (), fresh=True))[0]["states"]["a"]["value"]
    engine, _ = alone((A,), states=False)

    assert all(np.array_equal(fresh[name], value.numpy()) for name, value in tensors(engine, "a").items())
    assert fresh["layers.3.down_proj.A"].std() > 0
