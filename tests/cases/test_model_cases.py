"""Reports from other projects about base models, turned into tests."""

import json
import re

import pytest
import torch
from safetensors.torch import save_file

import toy_models
import toys
from executor.adapters import create
from executor.config import tensor_shapes
from executor.huggingface import INDEX, open_huggingface
from executor.huggingface_config import read_config, spec_of
from executor.mesh import Place
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
