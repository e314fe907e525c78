"""A Hugging Face config.json as a `ModelConfig`: every field that changes the computation is used or refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from executor.config import ModelConfig, Rope, RopeKind
from lobra.errors import BadInput
from lobra.json_file import read_object
from lobra.spec import ModelSpec

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "mistral": "MistralForCausalLM"}

SIZES = {  # ours: theirs
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "intermediate": "intermediate_size",
    "heads": "num_attention_heads",
    "vocabulary": "vocab_size",
}
READ = frozenset(
    {
        *SIZES.values(),
        "num_key_value_heads",
        "head_dim",
        "rms_norm_eps",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "tie_word_embeddings",
        "model_type",
        "architectures",
        "sliding_window",
        "layer_types",
        "max_position_embeddings",
    }
)

# Fields this executor has no code for: accepted only where they say that there is nothing to do.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "attention_dropout": (0,),
    "partial_rotary_factor": (1,),
    "use_sliding_window": (False,),
    "use_mrope": (False,),
    "rope_interleaved": (False,),
    "quantization_config": (None,),
    "auto_map": (None,),
    "pruned_heads": ({}, None),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,),
}

# Fields that do not touch the logits of a training forward pass.
HARMLESS = frozenset(
    {
        "_name_or_path",
        "name_or_path",
        "transformers_version",
        "torch_dtype",
        "dtype",
        "use_bfloat16",
        "initializer_range",
        "use_cache",
        "max_window_layers",  # layers with a sliding window, where use_sliding_window asks for one
        "pretraining_tp",  # how products were split in pretraining; the result is the same
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "unk_token_id",
        "sep_token_id",
        "decoder_start_token_id",
        "tokenizer_class",
        "prefix",
        "_attn_implementation",
        "attn_implementation",
        "_attn_implementation_autoset",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "return_dict_in_generate",
        "output_scores",
        "torchscript",
        "tf_legacy_loss",
        "chunk_size_feed_forward",
        "gradient_checkpointing",
        "is_decoder",
        "cross_attention_hidden_size",
        "finetuning_task",
        "task_specific_params",
        "problem_type",
        "id2label",
        "label2id",
        "max_length",
        "min_length",
        "do_sample",
        "early_stopping",
        "num_beams",
        "num_beam_groups",
        "diversity_penalty",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
        "repetition_penalty",
        "length_penalty",
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "bad_words_ids",
        "num_return_sequences",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "remove_invalid_values",
        "exponential_decay_length_penalty",
        "suppress_tokens",
        "begin_suppress_tokens",
    }
)

ROPE_KINDS: Mapping[str, RopeKind] = {"default": "default", "linear": "linear", "llama3": "llama3"}
ROPE_FIELDS = {  # ours: theirs
    "default": {},
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low_frequency_factor": "low_freq_factor",
        "high_frequency_factor": "high_freq_factor",
        "original_context": "original_max_position_embeddings",
    },
}


def read_config(folder: Path) -> ModelConfig:
    """The architecture in this folder's config.json; BadInput names the field that this executor cannot honour."""
    file = folder / "config.json"
    body = read_object(file)
    try:
        return _config(body)
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None


def spec_of(config: ModelConfig, name: str) -> ModelSpec:
    """The same model in the words of a plan."""
    return ModelSpec(
        name=name,
        layers=config.layers,
        hidden=config.hidden,
        intermediate=config.intermediate,
        heads=config.heads,
        kv_heads=config.kv_heads,
        vocabulary=config.vocabulary,
        tied_embeddings=config.tied_embeddings,
    )


def _config(body: dict[str, Any]) -> ModelConfig:
    kind = body.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise BadInput(f"model_type is {kind!r}; this executor trains {', '.join(ARCHITECTURES)}")
    _refuse_unknown(body, kind)
    sizes = {ours: _whole(body, theirs) for ours, theirs in SIZES.items()}
    head_size = _whole(body, "head_dim", sizes["hidden"] // max(1, sizes["heads"]))
    if body.get("head_dim") is None and sizes["hidden"] % sizes["heads"]:
        raise BadInput(f"hidden_size {sizes['hidden']} is no multiple of num_attention_heads; head_dim is missing")
    tied = body.get("tie_word_embeddings", False)
    if type(tied) is not bool:
        raise BadInput(f"tie_word_embeddings is {tied!r}; it must be true or false")
    return ModelConfig(
        **sizes,
        kv_heads=_whole(body, "num_key_value_heads", sizes["heads"] if kind == "llama" else None),
        head_size=head_size,
        rms_epsilon=_number(body.get("rms_norm_eps", 1e-6), "rms_norm_eps"),
        rope=_rope(body),
        qkv_bias=kind == "qwen2",
        tied_embeddings=tied,
        context=_whole(body, "max_position_embeddings") if body.get("max_position_embeddings") is not None else None,
    )


def _refuse_unknown(body: dict[str, Any], kind: str) -> None:
    for field, value in body.items():
        if field in NEUTRAL:
            allowed = NEUTRAL[field]
            if value not in allowed or (isinstance(value, bool) and value is not allowed[0]):
                raise BadInput(f"{field} is {value!r}; this executor computes with {allowed[0]!r} only")
        elif field not in READ and field not in HARMLESS:
            raise BadInput(f"{field} is {value!r}; this executor does not know the field, and it may change the result")
    named = body.get("architectures")
    if named not in (None, [ARCHITECTURES[kind]]):
        raise BadInput(f"architectures is {named!r}; this executor trains ['{ARCHITECTURES[kind]}']")
    types = body.get("layer_types")
    if types is not None and (not isinstance(types, list) or any(each != "full_attention" for each in types)):
        raise BadInput("layer_types names other layers than full_attention; this executor has no others")
    _refuse_window(body, kind)


def _refuse_window(body: dict[str, Any], kind: str) -> None:
    """Mistral looks through a window of 4096 unless told otherwise; Qwen2 only where use_sliding_window says so."""
    if kind == "mistral" and "sliding_window" not in body:
        raise BadInput("sliding_window is missing, which means 4096; write null if the model attends to everything")
    if kind != "qwen2" and body.get("sliding_window") is not None:
        raise BadInput(
            f"sliding_window is {body['sliding_window']!r}; this executor attends to everything. Write null if no "
            "sequence will be longer than the window: up to there the result is the same"
        )


def _rope(body: dict[str, Any]) -> Rope:
    """Rotary positions as transformers 4 writes them (rope_theta, rope_scaling), or 5 (rope_parameters)."""
    old, new = body.get("rope_scaling"), body.get("rope_parameters")
    for field, value in (("rope_scaling", old), ("rope_parameters", new)):
        if value is not None and not isinstance(value, dict):
            raise BadInput(f"{field} is {value!r}; it must be an object")
    fields, where = (dict(old or {}), "rope_scaling") if new is None else (dict(new), "rope_parameters")
    theta = body.get("rope_theta", fields.get("rope_theta", 10_000.0))
    if fields.pop("rope_theta", theta) != theta:
        raise BadInput(f"{where} and rope_theta contradict each other; keep one")
    kinds = {fields.pop(key) for key in ("rope_type", "type") if isinstance(fields.get(key), str)} or {"default"}
    kind = kinds.pop()
    if kinds or kind not in ROPE_KINDS:
        raise BadInput(f"{where}: its type is {kind!r}; this executor knows {', '.join(ROPE_KINDS)}")
    if fields.pop("partial_rotary_factor", 1) != 1:
        raise BadInput(f"{where}: partial_rotary_factor must be 1 in this executor")
    names = ROPE_FIELDS[kind]
    if set(fields) != set(names.values()):
        raise BadInput(f"{where}: type {kind} takes {sorted(names.values())}, but the file has {sorted(fields)}")
    if new is not None and old is not None and _plain(old, kind) != _plain(new, kind):
        raise BadInput("rope_scaling and rope_parameters contradict each other; keep one")
    numbers: dict[str, Any] = {ours: _number(fields[theirs], f"{where}.{theirs}") for ours, theirs in names.items()}
    if "original_context" in numbers:
        numbers["original_context"] = _whole(fields, names["original_context"])
    return Rope(theta=_number(theta, "rope_theta"), kind=ROPE_KINDS[kind], **numbers)


def _plain(fields: dict[str, Any], kind: str) -> dict[str, Any]:
    """Fields without the theta, which is compared elsewhere, and with one word for the type."""
    rest = {key: value for key, value in fields.items() if key not in ("rope_type", "type", "rope_theta")}
    return {"type": fields.get("rope_type", fields.get("type", kind))} | rest


def _whole(body: dict[str, Any], field: str, default: int | None = None) -> int:
    value = body.get(field, default)
    value = default if value is None else value
    if type(value) is not int or value < 1:
        raise BadInput(f"{field} is {value!r}; it must be a whole number >= 1")
    return value


def _number(value: Any, field: str) -> float:
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise BadInput(f"{field} is {value!r}; it must be a finite number above 0")
    return float(value)
