"""One tenant's update against torch's own AdamW."""

from dataclasses import replace

import pytest
import torch

from distributed.stages import CPU, place
from distributed.worlds import CONFIG, TENANTS
from executor import optimiser
from executor.adapters import create
from executor.settings import Settings
from lobra.errors import BadInput

TENANT = replace(TENANTS[0], weight_decay=0.1, learning_rate=1e-2)


def test_five_updates_are_those_of_torch():
    adapter = create(TENANT, CONFIG, place(CONFIG), torch.float64, CPU)
    mine = [matrix for pair in adapter.pairs.values() for matrix in pair]
    theirs = [matrix.value.detach().clone().requires_grad_() for matrix in mine]
    torch_adamw = torch.optim.AdamW(theirs, lr=1e-2, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-7)
    settings = Settings(dtype="float64", beta1=0.8, beta2=0.95, epsilon=1e-7)
    torch.manual_seed(0)
    for _ in range(5):
        slopes = [torch.randn_like(value) for value in theirs]
        for value, slope in zip(theirs, slopes, strict=True):
            value.grad = slope / 7
        torch_adamw.step()
        optimiser.step(adapter, list(zip(mine, slopes, strict=True)), 1 / 7, settings)

    assert max(float((a.value - b).detach().abs().max()) for a, b in zip(mine, theirs, strict=True)) < 1e-15
    assert adapter.updates == 5


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
        ("cosine", [0.5, 1.0, 1.0, 0.8535533905932737, 0.5, 0.1464466094067263]),
    ],
)
def test_the_rate_warms_up_and_decays_over_the_run(schedule, rates):
    tenant = replace(TENANT, schedule=schedule, warmup_steps=2, learning_rate=1.0)

    assert [optimiser.learning_rate(tenant, done, 6) for done in range(6)] == pytest.approx(rates)


def test_a_decaying_schedule_needs_to_know_its_end():
    with pytest.raises(BadInput, match=r"tenant 'a': schedule 'cosine' needs the execution's total_updates"):
        optimiser.check_schedule(replace(TENANT, schedule="cosine"), None)
    with pytest.raises(BadInput, match=r"warmup_steps 9 leaves no"):
        optimiser.check_schedule(replace(TENANT, schedule="linear", warmup_steps=9), 9)


def test_clipping_looks_at_one_tenant_alone():
    wild, calm = replace(TENANT, clip_norm=1.0), replace(TENANT, clip_norm=1.0)

    assert optimiser.clip_factor(wild, 30.0) == pytest.approx(1 / 30)
    assert optimiser.clip_factor(calm, 0.1) == 1.0
    assert optimiser.clip_factor(TENANT, 1e30) == 1.0
