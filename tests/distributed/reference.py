"""Training written a second time for the tests: one process, one sequence after another, W + s B A made explicit.

Softmax is written out, nothing is padded or packed, AdamW is torch's own. With the executor it shares only data: names,
seeds and masks.
"""

import cmath
import math
from collections.abc import Iterable

import torch

from distributed.worlds import Job, random_state
from executor.adapters import initial_a
from executor.keys import keep_mask, key_of
from lobra.plan import StepPlan
from lobra.spec import SequenceRef, Tenant

Tensor = torch.Tensor


class Reference:
    """The base model and all tenants' adapters, in float64 unless told otherwise."""

    def __init__(self, job: Job, dtype: torch.dtype = torch.float64) -> None:
        self.job = job
        self.config = job.config
        self.dtype = dtype
        self.source = job.weights()
        self.cache: dict[str, Tensor] = {}
        self.adapters = {tenant.name: self._adapter(tenant) for tenant in job.plan.tenants}
        self.optimisers: dict[str, torch.optim.AdamW] = {}
        self.updates = dict.fromkeys(self.adapters, 0)

    def _adapter(self, tenant: Tenant) -> dict[str, Tensor]:
        values = random_state(tenant, self.config).tensors["value"]
        if self.job.fresh:
            for name, value in values.items():
                _, layer, module, letter = name.split(".")
                inputs = self.config.module_shape(module)[1]
                fresh = initial_a(tenant, int(layer), module, inputs) if letter == "A" else torch.zeros_like(value)
                values[name] = fresh
        return {name: value.to(self.dtype).clone().requires_grad_() for name, value in values.items()}

    def weight(self, name: str) -> Tensor:
        if name not in self.cache:
            self.cache[name] = self.source.read(name).to(self.dtype)
        return self.cache[name]

    def linear(self, x: Tensor, layer: int, module: str, tenant: Tenant, index: int, step: int) -> Tensor:
        parent = "self_attn" if module in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
        name = f"model.layers.{layer}.{parent}.{module}"
        weight = self.weight(f"{name}.weight")
        y = torch.zeros(len(x), weight.shape[0], dtype=self.dtype)
        if module in tenant.target_modules:
            a, b = (self.adapters[tenant.name][f"layers.{layer}.{module}.{letter}"] for letter in "AB")
            scale = tenant.alpha / (math.sqrt(tenant.rank) if tenant.rslora else tenant.rank)
            if tenant.dropout:
                key = key_of("dropout", tenant.init_seed, tenant.name, index, step, layer, module)
                size = x.shape[1]
                keep = keep_mask(key, tenant.dropout, range(len(x)), range(size), features=size, device=x.device)
                y = y + scale * ((x * keep / (1 - tenant.dropout)) @ a.T @ b.T)
            else:
                weight = weight + scale * (b @ a)
        y = y + x @ weight.T
        if self.config.qkv_bias and module in ("q_proj", "k_proj", "v_proj"):
            y = y + self.weight(f"{name}.bias")
        return y

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + self.config.rms_epsilon).sqrt() * self.weight(name)

    def rope(self, x: Tensor) -> Tensor:
        half = self.config.head_size // 2
        turns = [
            [cmath.exp(1j * position * f) for f in self.config.rope.frequencies(self.config.head_size)]
            for position in range(len(x))
        ]
        kind = torch.complex128 if self.dtype == torch.float64 else torch.complex64
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.tensor(turns, dtype=kind)[:, None, :]
        return torch.cat((turned.real, turned.imag), -1)

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        copies = self.config.heads // self.config.kv_heads
        outputs = []
        for head in range(self.config.heads):
            scores = q[:, head] @ k[:, head // copies].T / math.sqrt(self.config.head_size)
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
            powers = (scores - scores.max(1, keepdim=True).values.detach()).exp()
            outputs.append(powers / powers.sum(1, keepdim=True) @ v[:, head // copies])
        return torch.cat(outputs, 1)

    def logits(self, ids: Tensor, tenant: Tenant, index: int = 0, step: int = 0) -> Tensor:
        x = self.weight("model.embed_tokens.weight")[ids]
        size = self.config.head_size
        for layer in range(self.config.layers):
            at = (tenant, index, step)
            n = self.norm(x, f"model.layers.{layer}.input_layernorm.weight")
            q, k, v = (
                self.linear(n, layer, f"{which}_proj", *at).unflatten(1, (-1, size)) for which in ("q", "k", "v")
            )
            x = x + self.linear(self.attention(self.rope(q), self.rope(k), v), layer, "o_proj", *at)
            n = self.norm(x, f"model.layers.{layer}.post_attention_layernorm.weight")
            gate, up = (self.linear(n, layer, f"{which}_proj", *at) for which in ("gate", "up"))
            x = x + self.linear(gate * torch.sigmoid(gate) * up, layer, "down_proj", *at)
        head = "model.embed_tokens.weight" if self.config.tied_embeddings else "lm_head.weight"
        return self.norm(x, "model.norm.weight") @ self.weight(head).T

    def loss(self, ref: SequenceRef, step: int = 0) -> Tensor:
        """Summed token loss of one sequence."""
        tenant = self.job.plan.tenants[ref.tenant]
        ids, labels = self.job.tokens().tokens(tenant.name, ref.index, ref.length, ref.labels)
        logits = self.logits(ids, tenant, ref.index, step)
        kept = labels >= 0
        chosen = logits[kept].gather(1, labels[kept][:, None])[:, 0]
        return (logits[kept].logsumexp(1) - chosen).sum()

    def losses(self, refs: Iterable[SequenceRef], step: int = 0) -> list[float]:
        """Run backward over each sequence; the loss sum of every tenant."""
        sums = [0.0] * len(self.job.plan.tenants)
        for ref in refs:
            loss = self.loss(ref, step)
            if loss.requires_grad:
                loss.backward()
            sums[ref.tenant] += float(loss.detach())
        return sums

    def gradients(self, tenant: str) -> dict[str, Tensor]:
        return {
            name: torch.zeros_like(value) if value.grad is None else value.grad
            for name, value in self.adapters[tenant].items()
        }

    def update(self, counts: list[int]) -> None:
        """AdamW with the mean gradient, clipped for each tenant alone."""
        for tenant, count in zip(self.job.plan.tenants, counts, strict=True):
            if not count:
                continue
            values = list(self.adapters[tenant.name].values())
            for value in values:
                value.grad /= count
            norm = torch.cat([value.grad.flatten() for value in values]).norm()
            if tenant.clip_norm is not None and norm > tenant.clip_norm:
                for value in values:
                    value.grad *= tenant.clip_norm / norm
            if tenant.name not in self.optimisers:
                self.optimisers[tenant.name] = torch.optim.AdamW(values, weight_decay=tenant.weight_decay)
            optimiser = self.optimisers[tenant.name]
            done, total = self.updates[tenant.name], self.job.settings.total_updates
            decay = (1 + math.cos(math.pi * done / total)) / 2 if tenant.schedule == "cosine" else 1.0
            optimiser.param_groups[0]["lr"] = tenant.learning_rate * decay
            optimiser.step()
            optimiser.zero_grad()
            self.updates[tenant.name] += 1


def refs_of(step: StepPlan) -> list[SequenceRef]:
    """Every sequence of a step once."""
    return [
        ref
        for replica, work in enumerate(step.work)
        for microbatch in work
        if not microbatch.group or microbatch.group[0] == replica
        for row in microbatch.rows
        for ref in row
    ]
