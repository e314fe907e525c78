"""Reports from other projects about base models and exported adapters, turned into tests."""

import json
import math
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import toy_models
import toys
from executor.adapters import create
from executor.config import ModelConfig, tensor_shapes
from executor.huggingface import INDEX, open_huggingface
from executor.huggingface_config import read_config, spec_of
from executor.mesh import Place
from executor.peft_format import export_adapter, import_adapter
from executor.state import TenantState, matrix_name
from lobra.errors import BadInput

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
CPU = torch.device("cpu")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def config_of(tmp_path, kind="llama", **more):
    (tmp_path / "config.json").write_text(json.dumps(toy_models.body(kind, **more)))
    return read_config(tmp_path)


# tied embeddings


@pytest.mark.parametrize("tied", [True, False])
def test_one_two_and_three_stages_give_the_same_logits_tied_or_not(tmp_path, tied):
    """sgl-project/sglang PR 15890, NVIDIA-NeMo/Megatron-Bridge PR 957: a tied last stage had no output weight."""
    config, held = toy_models.made(tmp_path, tie_word_embeddings=tied, num_hidden_layers=3)
    weights = open_huggingface(tmp_path)
    found = [toy_models.executor_logits(weights, weights.config, IDS, cut=cut) for cut in ((0,), (0, 2), (0, 1, 2))]

    torch.testing.assert_close(found[0], toy_models.expected_logits(config, held, IDS), rtol=1e-9, atol=1e-9)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_embedding_counts_once(tmp_path, tied):
    """vllm-project/vllm PR 6758 and others: parameters of tied models were counted twice."""
    _, held = toy_models.made(tmp_path, tie_word_embeddings=tied)
    config = open_huggingface(tmp_path).config

    assert spec_of(config, "toy").parameters == sum(tensor.numel() for tensor in held.values())


def test_a_tied_model_may_hold_its_head_again_if_it_is_the_same(tmp_path):
    """vllm-project/vllm PR 6758: a tied model whose file holds both tensors ended in a KeyError."""
    config = toy_models.body(tie_word_embeddings=True)
    held = toy_models.tensors(config)
    toy_models.write(tmp_path / "same", config, held | {HEAD: held[EMBEDDING].clone()})
    toy_models.write(tmp_path / "other", config, held | {HEAD: held[EMBEDDING] + 1})
    toy_models.write(tmp_path / "smaller", config, held | {HEAD: held[EMBEDDING][:-1].clone()})

    weights = open_huggingface(tmp_path / "same")
    found = toy_models.executor_logits(weights, weights.config, IDS)
    torch.testing.assert_close(found, toy_models.expected_logits(config, held, IDS), rtol=1e-9, atol=1e-9)
    for folder in ("other", "smaller"):
        with pytest.raises(
            BadInput, match=r"ties the head to the embedding, but lm_head.weight differs from model.embed"
        ):
            open_huggingface(tmp_path / folder)


def test_an_untied_model_without_a_head_is_refused(tmp_path):
    """QwenLM/Qwen3-VL-Embedding issue 89."""
    config = toy_models.body()
    held = toy_models.tensors(config)
    del held[HEAD]
    toy_models.write(tmp_path, config, held)

    with pytest.raises(BadInput, match=r"not tied, but the files hold no lm_head.weight; .* write tie_word_embeddings"):
        open_huggingface(tmp_path)


# shards and index


def test_a_shard_that_the_index_names_and_nobody_has_is_an_error(tmp_path):
    """sgl-project/sglang PR 32279: its tensors stayed random, and the server started."""
    toy_models.made(tmp_path, shards=3)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()

    with pytest.raises(BadInput, match=r"files that the index names are missing: model-00002-of-00003.safetensors"):
        open_huggingface(tmp_path)


def test_a_tensor_in_a_shard_and_not_in_the_index_is_an_error(tmp_path):
    """NVIDIA/TensorRT-LLM PR 16437: it was skipped."""
    toy_models.made(tmp_path, shards=3)
    index = json.loads((tmp_path / INDEX).read_text())
    del index["weight_map"]["model.norm.weight"]
    (tmp_path / INDEX).write_text(json.dumps(index))

    with pytest.raises(BadInput, match=r"hold tensors that are not in the index: model.norm.weight$"):
        open_huggingface(tmp_path)


def test_a_tensor_in_the_index_and_in_no_shard_is_an_error(tmp_path):
    """The other direction of the same."""
    _, held = toy_models.made(tmp_path, shards=3)
    first = sorted(held)[::3]
    save_file({name: held[name] for name in first[1:]}, tmp_path / "model-00001-of-00003.safetensors")

    with pytest.raises(BadInput, match=f"it names tensors that no file holds: {first[0]}$"):
        open_huggingface(tmp_path)


@pytest.mark.parametrize(
    ("shards", "name"),
    [
        (3, "model.safetensors"),
        (3, "model-00004-of-00003.safetensors"),
        (3, "adapter_model.safetensors"),
        (1, "model-00001-of-00002.safetensors"),
        (1, "adapter_model.safetensors"),
    ],
)
def test_a_stray_file_is_an_error_and_never_merged_in(tmp_path, shards, name):
    """Blaizzy/mlx-vlm PR 1464, PR 1827."""
    _, held = toy_models.made(tmp_path, shards=shards)
    save_file({EMBEDDING: held[EMBEDDING] * 0}, tmp_path / name)

    with pytest.raises(BadInput, match=f"{name} does not belong to model.safetensors"):
        open_huggingface(tmp_path)


# configuration fields


@pytest.mark.parametrize(
    ("head_size", "factor", "counts", "blended"),
    [(128, 8.0, (29, 6, 29), {29: 0.828168, 34: 0.190211}), (64, 32.0, (15, 3, 14), {})],
)
def test_llama3_rope_keeps_blends_and_divides_as_many_frequencies_as_published(
    tmp_path, head_size, factor, counts, blended
):
    """Blaizzy/mlx-vlm PR 1710, paiml/entrenar issues 258 and 262: rope scaling ignored, or factor 8 for 32."""
    scaling = toy_models.LLAMA3_ROPE | {"factor": factor, "original_max_position_embeddings": 8192}
    rope = config_of(tmp_path, rope_theta=5e5, rope_scaling=scaling).rope
    ratios = [found / 5e5 ** (-2 * pair / head_size) for pair, found in enumerate(rope.frequencies(head_size))]
    kept = sum(ratio == pytest.approx(1, rel=1e-12) for ratio in ratios)
    divided = sum(ratio == pytest.approx(1 / factor, rel=1e-12) for ratio in ratios)

    assert (kept, len(ratios) - kept - divided, divided) == counts
    assert {pair: pytest.approx(ratios[pair], abs=5e-7) for pair in blended} == blended


def test_the_norms_epsilon_is_that_of_the_file(tmp_path):
    """TransformerLensOrg/TransformerLens PR 910: 1e-5 for 1e-6."""
    x = torch.full((8,), 0.02, dtype=torch.float64)  # mean square 4e-4
    scaled = [
        torch.nn.functional.rms_norm(x, (8,), None, config_of(tmp_path, rms_norm_eps=epsilon).rms_epsilon)[0]
        for epsilon in (1e-6, 1e-5)
    ]

    assert float(scaled[1] / scaled[0]) == pytest.approx(0.98896, abs=5e-6)


def test_all_biases_of_a_qwen2_are_wanted(tmp_path):
    """paiml/aprender PR 1606: 72 of 290 tensors were lost."""
    config = toy_models.body("qwen2", num_hidden_layers=24, tie_word_embeddings=True)
    held = toy_models.tensors(config)
    toy_models.write(tmp_path, config, held)
    shapes = tensor_shapes(open_huggingface(tmp_path).config)

    assert (len(shapes), sum(name.endswith(".bias") for name in shapes)) == (290, 72)
    toy_models.write(tmp_path, config, {name: tensor for name, tensor in held.items() if not name.endswith(".bias")})
    with pytest.raises(BadInput, match=r"lack tensors.*self_attn.k_proj.bias.* and 67 more$"):
        open_huggingface(tmp_path)


def test_heads_wider_than_hidden_over_heads_give_the_adapter_its_size(tmp_path):
    """marin-community/marin issue 2098: head_dim ignored, 81920 parameters for 106496."""
    sizes = {"hidden_size": 2560, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 1}
    config = config_of(tmp_path, head_dim=128, **sizes)
    who = toys.tenant(rank=16, target_modules=("q_proj",))
    adapter = create(who, config, Place(0, 0, 0, 1, 1, range(1)), torch.float32, CPU)

    assert sum(matrix.value.numel() for matrix in adapter.matrices([0])) == 106496


def test_a_real_llama_writes_the_story_its_author_documents(reference_data):
    """Greedy text of a published model of 260,032 parameters, to the last character.

    Every token of the story is the likeliest after those before it: so, one by one, it would be written.
    """
    tokenizers = pytest.importorskip("tokenizers")
    folder = reference_data / "models" / "stories260K"
    weights = open_huggingface(folder)
    tool = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    document = (folder / "stories260K.md").read_text()
    story = re.search(r"-t 0\.0\n(Once upon a time.*?)\n```", document, re.DOTALL)[1]
    ids = [1, *tool.encode(story).ids]
    likeliest = toy_models.executor_logits(weights, weights.config, ids, dtype=torch.float32).argmax(-1)

    assert spec_of(weights.config, "stories260K").parameters == 260_032
    assert (len(story), tool.decode(ids).strip()) == (565, story)
    assert likeliest[:-1].tolist() == ids[1:]


# exported adapters


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
