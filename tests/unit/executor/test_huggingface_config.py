"""Every field of a config.json is used, known to be harmless, or refused by name."""

import json

import pytest

import toy_models
from executor.config import Rope
from executor.huggingface_config import read_config, spec_of
from lobra.errors import BadInput


def read(tmp_path, kind="llama", without=(), **more):
    body = toy_models.body(kind, **more)
    (tmp_path / "config.json").write_text(json.dumps({key: value for key, value in body.items() if key not in without}))
    return read_config(tmp_path)


def test_the_sizes_of_a_llama_are_read(tmp_path):
    config = read(tmp_path)

    assert (config.layers, config.hidden, config.intermediate, config.vocabulary) == (2, 24, 32, 40)
    assert (config.heads, config.kv_heads, config.head_size) == (4, 2, 6)
    assert (config.rms_epsilon, config.rope, config.qkv_bias, config.tied_embeddings) == (
        1e-5,
        Rope(500.0),
        False,
        False,
    )


def test_qwen2_has_biases_and_mistral_may_have_wide_heads(tmp_path):
    assert read(tmp_path, "qwen2").qkv_bias
    assert read(tmp_path, "qwen2").head_size == 6  # hidden / heads
    assert read(tmp_path, "mistral").head_size == 8
    assert not read(tmp_path, "mistral").qkv_bias


def test_old_llamas_without_the_newer_fields_mean_their_defaults(tmp_path):
    config = read(
        tmp_path, without=("num_key_value_heads", "head_dim", "rope_theta", "rms_norm_eps", "tie_word_embeddings")
    )

    assert (config.kv_heads, config.head_size, config.rope.theta, config.rms_epsilon) == (4, 6, 10_000.0, 1e-6)
    assert not config.tied_embeddings


@pytest.mark.parametrize("kind", ["qwen2", "mistral"])
def test_kv_heads_are_not_guessed_where_the_architecture_has_another_default(tmp_path, kind):
    with pytest.raises(BadInput, match="num_key_value_heads is None"):
        read(tmp_path, kind, without=("num_key_value_heads",))


def test_rope_scaling_of_transformers_4_and_rope_parameters_of_5_are_the_same_rope(tmp_path):
    llama3 = toy_models.LLAMA3_ROPE
    old = read(tmp_path, rope_scaling=llama3).rope
    new = read(tmp_path, without=("rope_theta", "rope_scaling"), rope_parameters={"rope_theta": 500.0} | llama3).rope

    assert old == new == Rope(500.0, "llama3", 8.0, 1.0, 4.0, 16)
    assert read(tmp_path, rope_scaling={"type": "linear", "factor": 2.0}).rope == Rope(500.0, "linear", 2.0)
    assert read(tmp_path, rope_parameters={"rope_type": "default", "rope_theta": 500.0}).rope == Rope(500.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"logit_scale": 0.5}, "logit_scale is 0.5; this executor does not know the field"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"auto_map": {"AutoModel": "evil.Model"}}, "auto_map"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"attention_dropout": 0.1}, "attention_dropout is 0.1"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"sliding_window": 4096}, "sliding_window is 4096"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures"),
        ({"model_type": "gemma2"}, "model_type is 'gemma2'; this executor trains llama, qwen2, mistral"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling: its type is 'yarn'"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "its type is 'dynamic'"),
        ({"rope_scaling": {"type": "linear", "rope_type": "llama3"}}, "its type is"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "mscale": 1}}, "type linear takes"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "type llama3 takes"),
        ({"rope_scaling": {"factor": 8.0}}, "type default takes"),
        ({"rope_scaling": 2.0}, "rope_scaling is 2.0; it must be an object"),
        ({"rope_parameters": {"rope_theta": 7.0}}, "rope_parameters and rope_theta contradict"),
        (
            {"rope_parameters": {"rope_theta": 500.0}, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "rope_scaling and rope_parameters contradict",
        ),
        ({"rope_theta": "500"}, "rope_theta is '500'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"hidden_size": 24.0}, "hidden_size is 24.0"),
        ({"num_attention_heads": True}, "num_attention_heads is True"),
        ({"num_key_value_heads": 3}, "kv_heads 3"),
        ({"head_dim": None, "num_attention_heads": 5}, "head_dim is missing"),
        ({"rms_norm_eps": 0}, "rms_norm_eps is 0"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'"),
    ],
)
def test_a_field_that_changes_the_computation_is_refused_by_name(tmp_path, change, named):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, **change)

    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: ")
    assert named in str(caught.value)


def test_qwen2_with_its_window_in_use_is_refused(tmp_path):
    with pytest.raises(BadInput, match="use_sliding_window is True"):
        read(tmp_path, "qwen2", use_sliding_window=True)


def test_a_mistral_that_does_not_speak_of_its_window_means_4096(tmp_path):
    with pytest.raises(BadInput, match="sliding_window is missing, which means 4096"):
        read(tmp_path, "mistral", without=("sliding_window",))


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"a": NaN}', b'{"a": 1, "a": 2}'])
def test_a_file_that_is_no_object_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)

    with pytest.raises(BadInput, match=r"config\.json: "):
        read_config(tmp_path)


def test_a_folder_without_config_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"config.json: cannot be read \(No such file"):
        read_config(tmp_path)


def test_the_plan_speaks_of_the_same_model(tmp_path):
    config = read(tmp_path)

    config.check_spec(spec_of(config, "toy"))
    assert spec_of(config, "toy").name == "toy"
