"""A Hugging Face folder is checked as a whole, and read in rectangles."""

import json

import pytest
import torch
from safetensors.torch import save_file

import toy_models
from executor.config import tensor_shapes
from executor.huggingface import INDEX, open_huggingface
from lobra.errors import BadInput


def first_shard(folder):
    return folder / "model-00001-of-00003.safetensors"


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral"])
def test_every_tensor_and_rectangle_is_that_of_the_files(tmp_path, kind, shards):
    _, held = toy_models.made(tmp_path, kind, shards)
    weights = open_huggingface(tmp_path)

    assert set(tensor_shapes(weights.config)) == set(held)
    for name, tensor in held.items():
        assert torch.equal(weights.read(name), tensor)
        assert torch.equal(weights.read(name, slice(2, 5)), tensor[2:5])
        if tensor.dim() == 2:
            part = weights.read(name, slice(1, 7), slice(3, 9))
            assert torch.equal(part, tensor[1:7, 3:9])
            assert torch.equal(weights.read(name, None, slice(0, 4)), tensor[:, :4])
            assert part.is_contiguous()


def test_a_rectangle_costs_the_memory_of_the_rectangle(tmp_path):
    _, held = toy_models.made(tmp_path)
    weights = open_huggingface(tmp_path)
    part = weights.read("model.layers.0.mlp.gate_proj.weight", slice(0, 4))

    assert part.untyped_storage().nbytes() == 4 * 24 * 4 < held["model.layers.0.mlp.gate_proj.weight"].nbytes


def test_the_type_of_the_file_is_kept(tmp_path):
    config = toy_models.body()
    held = {name: tensor.bfloat16() for name, tensor in toy_models.tensors(config).items()}
    toy_models.write(tmp_path, config, held)

    assert open_huggingface(tmp_path).read("model.norm.weight").dtype == torch.bfloat16


def test_an_unknown_tensor_is_not_read(tmp_path):
    toy_models.made(tmp_path)

    with pytest.raises(BadInput, match=r"the model has no tensor 'lm_head.bias'"):
        open_huggingface(tmp_path).read("lm_head.bias")


def test_a_tensor_of_another_shape_is_refused(tmp_path):
    config = toy_models.body()
    held = toy_models.tensors(config) | {"model.layers.1.mlp.up_proj.weight": torch.zeros(31, 24)}
    toy_models.write(tmp_path, config, held)

    with pytest.raises(
        BadInput, match=r"up_proj.weight' has the shape \(31, 24\), but config.json makes it \(32, 24\)"
    ):
        open_huggingface(tmp_path)


def test_quantised_tensors_are_refused(tmp_path):
    config = toy_models.body()
    held = toy_models.tensors(config)
    held["model.layers.0.mlp.up_proj.weight"] = held["model.layers.0.mlp.up_proj.weight"].to(torch.int8)
    toy_models.write(tmp_path, config, held)

    with pytest.raises(BadInput, match="stored as I8; only F64, F32, F16, BF16"):
        open_huggingface(tmp_path)


def test_a_missing_and_an_unknown_tensor_are_named(tmp_path):
    config, held = toy_models.made(tmp_path)
    lacking = {name: tensor for name, tensor in held.items() if "layers.1.mlp.down" not in name}
    toy_models.write(tmp_path, config, lacking)
    with pytest.raises(
        BadInput, match=r"lack tensors of the model in config.json: model.layers.1.mlp.down_proj.weight$"
    ):
        open_huggingface(tmp_path)

    toy_models.write(tmp_path, config, held | {"model.layers.0.self_attn.q_proj.bias": torch.zeros(24)})
    with pytest.raises(BadInput, match=r"unknown to the model in .*config.json: model.layers.0.self_attn.q_proj.bias$"):
        open_huggingface(tmp_path)


def test_rotary_frequencies_in_old_files_are_passed_over(tmp_path):
    config = toy_models.body()
    old = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(3)}
    toy_models.write(tmp_path, config, toy_models.tensors(config) | old)

    assert set(old).isdisjoint(open_huggingface(tmp_path).files)


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(tmp_path, cut):
    toy_models.made(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])

    with pytest.raises(BadInput, match="it is no whole safetensors file"):
        open_huggingface(tmp_path)


def test_pickled_weights_are_not_opened(tmp_path):
    toy_models.made(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")

    with pytest.raises(BadInput, match="only safetensors are read, never pickle"):
        open_huggingface(tmp_path)


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "sub/a.safetensors", "model.bin", 3, ""])
def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path, name):
    _, held = toy_models.made(tmp_path / "model", shards=3)
    save_file(held, tmp_path / "outside.safetensors")
    index = tmp_path / "model" / INDEX
    named = json.loads(index.read_text())
    named["weight_map"]["model.norm.weight"] = name
    index.write_text(json.dumps(named))

    with pytest.raises(BadInput, match="a file of this folder must be named"):
        open_huggingface(tmp_path / "model")


@pytest.mark.parametrize("content", ["{}", "[]", '{"weight_map": {}}', '{"weight_map": []}', "x"])
def test_an_index_without_tensors_is_refused(tmp_path, content):
    toy_models.made(tmp_path, shards=3)
    (tmp_path / INDEX).write_text(content)

    with pytest.raises(BadInput, match=r"index\.json: "):
        open_huggingface(tmp_path)


def test_a_tensor_that_two_shards_hold_is_refused(tmp_path):
    _, held = toy_models.made(tmp_path, shards=3)
    names = sorted(held)
    save_file({name: held[name] for name in [*names[::3], names[1]]}, first_shard(tmp_path))

    with pytest.raises(BadInput, match=f"it holds '{names[1]}', which belongs to model-00002"):
        open_huggingface(tmp_path)


def test_mistrals_second_copy_of_the_weights_is_left_alone(tmp_path):
    _, held = toy_models.made(tmp_path, "mistral", shards=2)
    save_file({"layers.0.attention.wq.weight": torch.zeros(2, 2)}, tmp_path / "consolidated.safetensors")

    assert set(open_huggingface(tmp_path).files) == set(held)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("llama", {}),
        ("llama", {"rope_scaling": toy_models.LLAMA3_ROPE}),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}, "tie_word_embeddings": True}),
        ("qwen2", {"rms_norm_eps": 1e-6}),
        ("mistral", {"num_key_value_heads": 1}),
    ],
)
@pytest.mark.parametrize("start", [0, 100, 9000])
def test_the_executors_logits_are_those_of_a_forward_pass_written_for_this_test(tmp_path, kind, more, start):
    config, held = toy_models.made(tmp_path, kind, shards=2, **more)
    weights = open_huggingface(tmp_path)
    ids = [3, 1, 4, 1, 5, 9, 2, 6, 39, 0]

    found = toy_models.executor_logits(weights, weights.config, ids, start)

    torch.testing.assert_close(found, toy_models.expected_logits(config, held, ids, start), rtol=1e-9, atol=1e-9)
