"""Reports from other projects about exported adapters, turned into tests."""

import json
import math
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import toy_models
import toys
from executor.adapters import create
from executor.config import ModelConfig
from executor.huggingface import open_huggingface
from executor.mesh import Place
from executor.peft_format import export_adapter, import_adapter
from executor.state import TenantState, matrix_name
from lobra.errors import BadInput

CPU = torch.device("cpu")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def trained(who, config, seed=0):
    """Whole matrices of a tenant that trained for a while."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for layer in range(config.layers):
        for module in who.target_modules:
            outputs, inputs = config.module_shape(module)
            found[matrix_name(layer, module, "A")] = torch.randn(who.rank, inputs, generator=generator)
            found[matrix_name(layer, module, "B")] = torch.randn(outputs, who.rank, generator=generator)
    return found


def test_a_tenant_in_the_fourth_slot_exports_all_of_its_tensors(tmp_path):
    """modelscope/twinkle PR 215: the adapter was empty where the tenant's name was not that of its slot."""
    config = ModelConfig(2, 24, 32, 4, 2, 40, 6)
    tenants = [toys.tenant(name, rank=2, target_modules=("q_proj", "v_proj")) for name in ("x", "y", "z", "t1")]
    adapters = [create(who, config, Place(0, 0, 0, 1, 1, range(2)), torch.float32, CPU) for who in tenants]
    slot = adapters[3]
    matrices = {
        matrix_name(layer, module, letter): matrix.value
        for (layer, module), pair in slot.pairs.items()
        for letter, matrix in zip("AB", pair, strict=True)
    }
    export_adapter(tmp_path / "t1", slot.tenant, config, matrices)
    tensors = load_file(tmp_path / "t1" / "adapter_model.safetensors")

    assert len(tensors) == 8 == 2 * 2 * 2
    assert all(tensor.numel() for tensor in tensors.values())


def test_rank_and_alpha_survive_a_reload(tmp_path):
    """NVIDIA-NeMo/Megatron-Bridge PR 4218: the scaling was lost by a checkpoint."""
    config = ModelConfig(1, 24, 32, 4, 2, 40, 6)
    who = toys.tenant(rank=8, alpha=16.0)
    matrices = trained(who, config)
    export_adapter(tmp_path / "a", who, config, matrices)
    back = import_adapter(tmp_path / "a", config)
    again = toys.tenant(rank=back.rank, alpha=back.alpha, rslora=back.rslora, target_modules=back.target_modules)
    scales = [create(each, config, None, torch.float32, CPU).scale for each in (who, again)]

    assert scales == [2.0, 2.0]
    for module in who.target_modules:
        names = matrix_name(0, module, "B"), matrix_name(0, module, "A")
        before, after = ([held[name] for name in names] for held in (matrices, back.matrices))
        assert torch.equal(scales[0] * before[0] @ before[1], scales[1] * after[0] @ after[1])


def test_the_adapter_of_one_stage_is_no_adapter(tmp_path):
    """NVIDIA-NeMo/Automodel PR 3096: with pipeline parallelism the saved adapter held one stage."""
    config = ModelConfig(4, 24, 32, 4, 2, 40, 6)
    who = toys.tenant(rank=2, target_modules=("down_proj", "q_proj"))
    stages = [
        create(who, config, Place(0, stage, 0, 1, 2, range(2 * stage, 2 * stage + 2)), torch.float32, CPU)
        for stage in range(2)
    ]
    parts = [
        {
            matrix_name(layer, module, letter): matrix.value
            for (layer, module), pair in stage.pairs.items()
            for letter, matrix in zip("AB", pair, strict=True)
        }
        for stage in stages
    ]
    with pytest.raises(BadInput, match=r"lacks 8 of 16 tensors, such as layers\.2\."):
        export_adapter(tmp_path / "a", who, config, parts[0])
    export_adapter(tmp_path / "a", who, config, parts[0] | parts[1])
    keys = list(load_file(tmp_path / "a" / "adapter_model.safetensors"))

    assert sorted(int(re.search(r"layers\.(\d)", key)[1]) for key in keys) == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    named = json.loads((tmp_path / "a" / "adapter_config.json").read_text())["target_modules"]
    assert named == ["down_proj", "q_proj"]


def test_an_empty_adapter_file_is_noticed(tmp_path):
    """huggingface/trl issue 4416, peft issue 2892: a sharded save wrote 40 bytes, and nobody noticed."""
    config = ModelConfig(1, 24, 32, 4, 2, 40, 6)
    who = toys.tenant(rank=2, target_modules=("q_proj",))
    matrices = trained(who, config)
    export_adapter(tmp_path / "a", who, config, matrices)
    save_file({}, tmp_path / "a" / "adapter_model.safetensors", metadata={"format": "pt"})

    assert (tmp_path / "a" / "adapter_model.safetensors").stat().st_size <= 48
    with pytest.raises(BadInput, match="holds no tensor at all"):
        import_adapter(tmp_path / "a", config)
    for broken in ({}, dict.fromkeys(matrices, torch.zeros(0))):
        with pytest.raises(BadInput, match=r"holds no tensor at all|has the shape"):
            export_adapter(tmp_path / "b", who, config, broken)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize("alphas", [{}, {"v_proj": 24}])
def test_an_adapter_with_a_rank_of_its_own_for_each_module_is_reloaded(tmp_path, rslora, alphas):
    """huggingface/peft issue 3737: saved with ranks 8 and 4, it could not be loaded."""
    config, held = toy_models.made(tmp_path / "base")
    weights = open_huggingface(tmp_path / "base")
    generator = torch.Generator().manual_seed(1)
    tensors, merged = {}, dict(held)
    for layer in range(2):
        for module, rank, outputs in (("q_proj", 8, 24), ("v_proj", 4, 12)):
            name = f"model.layers.{layer}.self_attn.{module}"
            a, b = torch.randn(rank, 24, generator=generator), torch.randn(outputs, rank, generator=generator)
            tensors |= {f"base_model.model.{name}.lora_A.weight": a, f"base_model.model.{name}.lora_B.weight": b}
            scale = alphas.get(module, 16) / (math.sqrt(rank) if rslora else rank)
            merged[f"{name}.weight"] = held[f"{name}.weight"].double() + scale * b.double() @ a.double()
    (tmp_path / "a").mkdir()
    save_file(tensors, tmp_path / "a" / "adapter_model.safetensors")
    body = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": rslora, "rank_pattern": {"v_proj": 4}}
    (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(body | {"alpha_pattern": alphas}))

    first = import_adapter(tmp_path / "a", weights.config)
    who = toys.tenant(rank=8, alpha=16.0, rslora=rslora, target_modules=first.target_modules)
    export_adapter(tmp_path / "again", who, weights.config, first.matrices)
    second = import_adapter(tmp_path / "again", weights.config)

    expected = toy_models.expected_logits(config, merged, IDS)
    for adapter in (first, second):
        state = TenantState(who, {"value": adapter.matrices})
        found = toy_models.executor_logits(weights, weights.config, IDS, adapter=state)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rslora", "scale"), [(False, 4.0), (True, 8.0)])
def test_merging_gives_what_was_trained_under_both_scalings(tmp_path, rslora, scale):
    """huggingface/peft PR 3449: an rsLoRA merge was too large by the root of the rank."""
    config = ModelConfig(1, 24, 32, 4, 2, 40, 6)
    who = toys.tenant(rank=4, alpha=16.0, rslora=rslora, target_modules=("q_proj",))
    export_adapter(tmp_path / "a", who, config, trained(who, config))
    body = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    theirs = body["lora_alpha"] / (math.sqrt(body["r"]) if body["use_rslora"] else body["r"])

    assert theirs == scale == create(who, config, None, torch.float32, CPU).scale
