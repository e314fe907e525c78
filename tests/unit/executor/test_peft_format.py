"""Adapters leave in PEFT's format and come back, or are refused."""

import json
import math
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import toy_models
import toys
from executor.config import ModelConfig
from executor.huggingface import open_huggingface
from executor.peft_format import adapter_folder, check_tenant, export_adapter, import_adapter
from executor.state import TenantState
from lobra.errors import BadInput

CONFIG = ModelConfig(2, 24, 32, 4, 2, 40, 6)
SHAPES = {"q_proj": (24, 24), "v_proj": (12, 24), "gate_proj": (32, 24), "down_proj": (24, 32)}  # outputs, inputs
PARENTS = {"q_proj": "self_attn", "v_proj": "self_attn", "gate_proj": "mlp", "down_proj": "mlp"}


def tenant(**more):
    return toys.tenant(**({"rank": 4, "alpha": 8.0, "target_modules": tuple(SHAPES), "dropout": 0.25} | more))


def matrices(who, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for layer in range(2):
        for module in who.target_modules:
            outputs, inputs = SHAPES[module]
            found[f"layers.{layer}.{module}.A"] = torch.randn(who.rank, inputs, generator=generator)
            found[f"layers.{layer}.{module}.B"] = torch.randn(outputs, who.rank, generator=generator)
    return found


def exported(folder, **more):
    who = tenant(**more)
    whole = matrices(who)
    export_adapter(folder, who, CONFIG, whole, "toys/base")
    return who, whole


def deltas(folder):
    """What PEFT adds to each weight, by the rules of its documentation."""
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapter_model.safetensors")
    found = {}
    for key in tensors:
        if "lora_A" in key:
            name = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")

            def pattern(field, default, name=name):
                fits = (value for part, value in config[field].items() if re.match(rf"(.*\.)?{part}$", name))
                return next(fits, default)

            rank, alpha = pattern("rank_pattern", config["r"]), pattern("alpha_pattern", config["lora_alpha"])
            scale = alpha / (math.sqrt(rank) if config["use_rslora"] else rank)
            found[name] = scale * tensors[key.replace("lora_A", "lora_B")].double() @ tensors[key].double()
    return found


def rewritten(folder, **more):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def test_keys_shapes_and_configuration_are_those_of_peft(tmp_path):
    _, whole = exported(tmp_path / "a")
    tensors = load_file(tmp_path / "a" / "adapter_model.safetensors")
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())

    assert tensors.keys() == {
        f"base_model.model.model.layers.{layer}.{PARENTS[module]}.{module}.lora_{side}.weight"
        for layer in range(2)
        for module in SHAPES
        for side in "AB"
    }
    for key, tensor in tensors.items():
        layer, module, side = re.fullmatch(r".*layers\.(\d)\.\w+\.(\w+)\.lora_(.)\.weight", key).groups()
        assert torch.equal(tensor, whole[f"layers.{layer}.{module}.{side}"])
    assert {
        key: config[key] for key in ("peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "use_rslora")
    } == {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": 4,
        "lora_alpha": 8,
        "lora_dropout": 0.25,
        "use_rslora": False,
    }
    assert (config["target_modules"], config["base_model_name_or_path"]) == (sorted(SHAPES), "toys/base")


@pytest.mark.parametrize("rslora", [False, True])
def test_an_adapter_comes_back_as_it_left(tmp_path, rslora):
    who, whole = exported(tmp_path / "a", rslora=rslora, alpha=3.5)
    back = import_adapter(tmp_path / "a", CONFIG)

    assert (back.rank, back.alpha, back.rslora, back.dropout) == (4, 3.5, rslora, 0.25)
    assert set(back.target_modules) == set(SHAPES)
    assert back.matrices.keys() == whole.keys()
    assert all(torch.equal(back.matrices[name], matrix) for name, matrix in whole.items())
    check_tenant(who, back)


def test_the_same_adapter_gives_the_same_bytes(tmp_path):
    exported(tmp_path / "a")
    exported(tmp_path / "b")

    for name in ("adapter_model.safetensors", "adapter_config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("rslora", [False, True])
def test_training_goes_on_from_an_imported_adapter(tmp_path, rslora):
    """The executor's logits with it are those of a base model whose weights were merged by PEFT's rules."""
    config, held = toy_models.made(tmp_path / "base")
    who, _ = exported(tmp_path / "a", rslora=rslora, dropout=0.0)
    state = TenantState(who, {"value": import_adapter(tmp_path / "a", CONFIG).matrices})
    weights = open_huggingface(tmp_path / "base")
    merged = dict(held)
    for name, delta in deltas(tmp_path / "a").items():
        merged[f"{name}.weight"] = held[f"{name}.weight"].double() + delta
    ids = [1, 5, 2, 30, 7]

    found = toy_models.executor_logits(weights, weights.config, ids, adapter=state)

    torch.testing.assert_close(found, toy_models.expected_logits(config, merged, ids), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda m: m.pop("layers.1.v_proj.B"), "lacks 1 of 16 tensors, such as layers.1.v_proj.B"),
        (lambda m: m.update({"layers.2.v_proj.A": torch.ones(4, 24)}), "1 tensors that the model has no place for"),
        (
            lambda m: m.update({"layers.0.q_proj.A": torch.ones(4, 23)}),
            r"lora_A of layer 0 q_proj has the shape \(4, 23\)",
        ),
        (lambda m: m.update({"layers.0.v_proj.B": torch.ones(24, 4)}), r"lora_B of layer 0 v_proj has the shape"),
        (lambda m: m.update({"layers.0.q_proj.A": torch.zeros(0)}), r"has the shape \(0,\)"),
        (lambda m: m.update({"layers.0.q_proj.A": torch.zeros(4, 24)}), "is all zero"),
        (
            lambda m: m["layers.0.q_proj.B"][0].fill_(math.nan),
            "lora_B of layer 0 q_proj holds values that are not finite",
        ),
        (lambda m: m["layers.1.down_proj.A"][0].fill_(-math.inf), "not finite"),
        (lambda m: m.clear(), "holds no tensor at all"),
    ],
)
def test_an_adapter_that_is_not_whole_is_not_exported(tmp_path, change, named):
    who = tenant()
    whole = matrices(who)
    change(whole)

    with pytest.raises(BadInput, match=f"tenant 'a': .*{named}"):
        export_adapter(tmp_path / "a", who, CONFIG, whole)
    assert list(tmp_path.iterdir()) == []


def test_a_fresh_adapter_whose_b_is_zero_may_be_exported(tmp_path):
    who = tenant()
    whole = {name: matrix * (0 if name.endswith("B") else 1) for name, matrix in matrices(who).items()}
    export_adapter(tmp_path / "a", who, CONFIG, whole)

    assert not any(delta.any() for delta in deltas(tmp_path / "a").values())


def test_views_of_one_buffer_are_exported_as_tensors_of_their_own(tmp_path):
    who = tenant()
    buffer = torch.arange(1.0, 1 + 4 * 24 + 24 * 4).double()
    whole = matrices(who) | {
        "layers.0.q_proj.A": buffer[:96].view(4, 24),
        "layers.0.q_proj.B": buffer[48:144].view(4, 24).T,
    }
    export_adapter(tmp_path / "a", who, CONFIG, whole)
    back = import_adapter(tmp_path / "a", CONFIG).matrices

    assert all(torch.equal(back[name], matrix) for name, matrix in whole.items())


def test_an_existing_folder_is_left_alone(tmp_path):
    exported(tmp_path / "a")
    before = (tmp_path / "a" / "adapter_model.safetensors").read_bytes()

    with pytest.raises(BadInput, match="it exists already"):
        export_adapter(tmp_path / "a", tenant(), CONFIG, matrices(tenant(), seed=1))
    assert (tmp_path / "a" / "adapter_model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'"),
        ({"use_dora": True}, "use_dora is True"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"layers_to_transform": [0]}, "layers_to_transform"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
        ({"use_qalora": True}, "use_qalora is True; this executor does not know the field"),
        ({"r": 0}, "r is 0"),
        ({"r": 4.0}, "r is 4.0"),
        ({"r": 8}, r"has the shape \(4, 24\), not \(8, 24\)"),
        ({"lora_alpha": "8"}, "lora_alpha is '8'"),
        ({"use_rslora": "yes"}, "use_rslora must be"),
        ({"rank_pattern": {"(a+)+": 4}}, "only plain names"),
        ({"rank_pattern": {"q_proj": -1}}, "only plain names of modules and numbers above 0"),
        ({"alpha_pattern": [8]}, "must be an object"),
    ],
)
def test_an_adapter_of_another_kind_is_not_imported(tmp_path, more, named):
    exported(tmp_path / "a")
    rewritten(tmp_path / "a", **more)

    with pytest.raises(BadInput, match=named):
        import_adapter(tmp_path / "a", CONFIG)


def test_an_adapter_for_another_model_is_not_imported(tmp_path):
    exported(tmp_path / "a")

    with pytest.raises(BadInput, match="lacks 8 of 24 tensors"):
        import_adapter(tmp_path / "a", ModelConfig(3, 24, 32, 4, 2, 40, 6))
    with pytest.raises(BadInput, match=r"lora_A of layer 0 q_proj has the shape \(4, 24\), not \(4, 48\)"):
        import_adapter(tmp_path / "a", ModelConfig(2, 48, 32, 4, 2, 40, 6))


def test_a_pickled_adapter_is_not_opened(tmp_path):
    exported(tmp_path / "a")
    (tmp_path / "a" / "adapter_model.safetensors").rename(tmp_path / "a" / "adapter_model.bin")

    with pytest.raises(BadInput, match="pickled adapters are not read"):
        import_adapter(tmp_path / "a", CONFIG)


def test_half_precision_adapters_are_trained_in_float32(tmp_path):
    exported(tmp_path / "a")
    file = tmp_path / "a" / "adapter_model.safetensors"
    halves = {key: tensor.bfloat16() for key, tensor in load_file(file).items()}
    save_file(halves, file)
    back = import_adapter(tmp_path / "a", CONFIG)

    assert {matrix.dtype for matrix in back.matrices.values()} == {torch.float32}
    assert torch.equal(back.matrices["layers.0.q_proj.A"], matrices(tenant())["layers.0.q_proj.A"].bfloat16().float())


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"rank": 8}, "rank"),
        ({"alpha": 16.0}, "alpha"),
        ({"rslora": True}, "rslora"),
        ({"target_modules": ("q_proj",)}, "tar"),
    ],
)
def test_a_tenant_with_other_settings_does_not_train_on_with_it(tmp_path, other, named):
    exported(tmp_path / "a")

    with pytest.raises(BadInput, match=f"tenant 'a': {named}.* the imported adapter has"):
        check_tenant(tenant(**other), import_adapter(tmp_path / "a", CONFIG))


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").symlink_to(tmp_path / "outside")

    with pytest.raises(BadInput, match="it exists already"):
        export_adapter(adapter_folder(root, "a"), tenant(), CONFIG, matrices(tenant()))
    assert list((tmp_path / "outside").iterdir()) == []
