"""The other side of the comparison: a Llama of transformers with adapters of PEFT, trained one after the other."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import save_file
from torch.nn import functional

from executor.config import ModelConfig, tensor_shapes
from executor.data import IGNORED
from executor.weights import RandomWeights

Tensor = torch.Tensor


def write_base(folder: Path, config: ModelConfig) -> None:
    """A Hugging Face folder of random weights."""
    folder.mkdir()
    body = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": config.vocabulary,
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "rms_norm_eps": config.rms_epsilon,
        "rope_theta": config.rope.theta,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
        "use_cache": False,
    }
    (folder / "config.json").write_text(json.dumps(body))
    weights = RandomWeights(config)
    save_file(
        {name: weights.read(name) for name in tensor_shapes(config)},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


@dataclass(frozen=True)
class Rows:
    """A padded batch; int64 [rows, width]."""

    ids: Tensor
    labels: Tensor
    mask: Tensor

    @classmethod
    def of(cls, texts: Sequence[tuple[Tensor, Tensor]]) -> "Rows":
        """Padded on the right."""
        width = max(len(ids) for ids, _ in texts)
        ids = torch.zeros((len(texts), width), dtype=torch.int64)
        labels = torch.full_like(ids, IGNORED)
        mask = torch.zeros_like(ids)
        for row, (text, targets) in enumerate(texts):
            ids[row, : len(text)], labels[row, : len(text)], mask[row, : len(text)] = text, targets, 1
        return cls(ids, labels, mask)


class Peft:
    """Adapters that take turns on one base model, each with an AdamW of its own.

    masked: give the attention mask, as data collators do; without it right padding is still harmless under causal
    attention, and the kernel for plain causal attention may be used.
    """

    def __init__(
        self, base: Path, adapters: Sequence[Path], batches: Sequence[Sequence[Rows]], *, masked: bool
    ) -> None:
        model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        self.names = [folder.name for folder in adapters]
        first, *rest = adapters
        self.model = peft.PeftModel.from_pretrained(model, first, adapter_name=first.name, is_trainable=True)
        for folder in rest:
            self.model.load_adapter(folder, adapter_name=folder.name, is_trainable=True)
        self.model.train()
        self.batches = batches
        self.masked = masked
        self.optimisers = {}
        for name in self.names:
            self.model.set_adapter(name)
            trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
            self.optimisers[name] = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0)

    def __call__(self) -> Sequence[float]:
        """One step of every adapter."""
        losses = []
        for name, batches in zip(self.names, self.batches, strict=True):
            self.model.set_adapter(name)
            labels = sum(int((rows.labels != IGNORED).sum()) for rows in batches)
            total = 0.0
            for rows in batches:
                out = self.model(input_ids=rows.ids, attention_mask=rows.mask if self.masked else None)
                loss = functional.cross_entropy(
                    out.logits.flatten(0, 1), rows.labels.flatten(), ignore_index=IGNORED, reduction="sum"
                )
                (loss / labels).backward()
                total += float(loss.detach())
            self.optimisers[name].step()
            self.optimisers[name].zero_grad()
            losses.append(total)
        return losses
