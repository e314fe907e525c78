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

from benchmarks.training_ways import World
from executor.config import ModelConfig, tensor_shapes
from executor.data import IGNORED, SyntheticTokens
from executor.engine import CPU
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

    def to(self, device: torch.device) -> "Rows":
        """The same on a device."""
        return Rows(self.ids.to(device), self.labels.to(device), self.mask.to(device))


def in_turn(world: World, batch: int, *, ordered: bool) -> list[list[Rows]]:
    """For each tenant its padded batches, in order of arrival or of length."""
    source = SyntheticTokens(world.config.vocabulary)
    batches = []
    for number, tenant in enumerate(world.plan.tenants):
        mine = [ref for ref in world.refs if ref.tenant == number]
        if ordered:
            mine.sort(key=lambda ref: ref.length)
        texts = [source.tokens(tenant.name, ref.index, ref.length, ref.labels) for ref in mine]
        batches.append([Rows.of(texts[start : start + batch]) for start in range(0, len(texts), batch)])
    return batches


class Peft:
    """Adapters that take turns on one base model, each with an AdamW of its own.

    masked: give the attention mask, as data collators do; without it right padding is still harmless under causal
    attention, and the kernel for plain causal attention may be used.
    """

    def __init__(
        self,
        base: Path,
        adapters: Sequence[Path],
        batches: Sequence[Sequence[Rows]],
        *,
        masked: bool,
        dtype: str = "float32",
        device: torch.device = CPU,
    ) -> None:
        model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=getattr(torch, dtype)).to(device)
        self.names = [folder.name for folder in adapters]
        first, *rest = adapters
        self.model = peft.PeftModel.from_pretrained(model, first, adapter_name=first.name, is_trainable=True)
        for folder in rest:
            self.model.load_adapter(folder, adapter_name=folder.name, is_trainable=True)
        self.model.train()
        self.batches = [[rows.to(device) for rows in mine] for mine in batches]
        self.masked = masked
        self.optimisers = {}
        for name in self.names:
            self.model.set_adapter(name)
            trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
            self.optimisers[name] = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0)

    @property
    def tokens(self) -> int:
        """Tokens that a step computes."""
        return sum(rows.ids.numel() for mine in self.batches for rows in mine)

    def __call__(self) -> Sequence[float]:
        """One step of every adapter; their summed losses."""
        losses = []
        for name, batches in zip(self.names, self.batches, strict=True):
            self.model.set_adapter(name)
            labels = sum(int((rows.labels != IGNORED).sum()) for rows in batches)
            total = torch.zeros((), device=self.model.device)
            for rows in batches:
                out = self.model(input_ids=rows.ids, attention_mask=rows.mask if self.masked else None)
                loss = functional.cross_entropy(
                    out.logits.flatten(0, 1).float(), rows.labels.flatten(), ignore_index=IGNORED, reduction="sum"
                )
                (loss / labels).backward()
                total += loss.detach()
            self.optimisers[name].step()
            self.optimisers[name].zero_grad()
            losses.append(float(total))
        return losses
