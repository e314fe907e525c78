"""One tenant's update: AdamW (Loshchilov and Hutter 2019), its schedule, its clipping; never across tenants.

Everything is elementwise on this rank's rectangles, so a cut changes nothing; the norm comes from the canonical buffer,
where every element counts once.
"""

import math

import torch

from executor.adapters import Adapter, Matrix
from executor.settings import Settings
from lobra.errors import BadInput
from lobra.spec import Tenant

Tensor = torch.Tensor


def check_schedule(tenant: Tenant, total: int | None) -> None:
    """Refuse a schedule that decays towards an end nobody named."""
    if tenant.schedule == "constant":
        return
    if total is None:
        raise BadInput(f"tenant '{tenant.name}': schedule '{tenant.schedule}' needs the execution's total_updates")
    if total <= tenant.warmup_steps:
        warmup = tenant.warmup_steps
        raise BadInput(
            f"tenant '{tenant.name}': warmup_steps {warmup} leaves nothing of {total} total_updates to decay"
        )


def learning_rate(tenant: Tenant, done: int, total: int | None) -> float:
    """The rate of the update after `done` ones: linear warm-up, then constant or decaying to 0."""
    if done < tenant.warmup_steps:
        return tenant.learning_rate * (done + 1) / tenant.warmup_steps
    if tenant.schedule == "constant" or total is None:
        return tenant.learning_rate
    progress = min(1.0, (done - tenant.warmup_steps) / (total - tenant.warmup_steps))
    left = 1 - progress if tenant.schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return tenant.learning_rate * left


def clip_factor(tenant: Tenant, norm: float) -> float:
    """What the gradient is multiplied with so that its norm does not exceed the tenant's limit."""
    return tenant.clip_norm / norm if tenant.clip_norm is not None and norm > tenant.clip_norm else 1.0


@torch.no_grad()
def step(adapter: Adapter, gradients: list[tuple[Matrix, Tensor]], factor: float, settings: Settings) -> None:
    """One AdamW update of these matrices; gradients are sums, `factor` turns them into the clipped mean."""
    rate = learning_rate(adapter.tenant, adapter.updates, settings.total_updates)
    adapter.updates += 1
    first = 1 - settings.beta1**adapter.updates
    second = 1 - settings.beta2**adapter.updates
    for matrix, total in gradients:
        slope = total * factor
        matrix.mean.lerp_(slope, 1 - settings.beta1)
        matrix.square.mul_(settings.beta2).addcmul_(slope, slope, value=1 - settings.beta2)
        matrix.value.mul_(1 - rate * adapter.tenant.weight_decay)
        root = (matrix.square / second).sqrt_().add_(settings.epsilon)
        matrix.value.addcdiv_(matrix.mean, root, value=-rate / first)
