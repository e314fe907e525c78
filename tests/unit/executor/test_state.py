"""Whole states of a tenant, out of one engine and into another."""

from dataclasses import replace

import pytest
import torch

from distributed.worlds import CONFIG, LAYOUTS, TENANTS, Job, microbatch, plan_of, random_state, sequences
from executor.engine import Engine
from executor.settings import Settings
from executor.state import KINDS, TenantState
from lobra.errors import BadInput
from lobra.plan import StepPlan

PLAN = plan_of(LAYOUTS["TP1"], TENANTS[:2])


def engine(plan=PLAN):
    job = Job(plan, ())
    made = Engine(job.config, job.weights(), job.tokens(), job.settings)
    made.deploy(plan)
    return made


def work(number, updates=None):
    return StepPlan(number, ((microbatch(sequences(2, 2, seed=number), packed=True),),), updates)


def test_training_goes_on_from_a_state_bit_for_bit():
    straight, first, second = engine(), engine(), engine()
    for number in range(3):
        straight.run_step(work(number, updates=(0,) if number == 1 else None))
    first.run_step(work(0))
    first.run_step(work(1, updates=(0,)))  # the second tenant's gradient and labels wait
    for name in "ab":
        second.load(first.export(name))
    second.run_step(work(2))

    for name in "ab":
        one, two = straight.export(name), second.export(name)
        for kind in KINDS:
            assert all(torch.equal(value, two.tensors[kind][where]) for where, value in one.tensors[kind].items())
        assert (one.updates, one.labels) == (two.updates, two.labels)
    assert [straight.export(name).updates for name in "ab"] == [3, 2]


def test_a_state_without_moments_begins_them_anew():
    made = engine()
    made.load(random_state(TENANTS[0], CONFIG))

    state = made.export("a")
    assert all(not value.any() for kind in ("mean", "square") for value in state.tensors[kind].values())
    assert torch.equal(
        state.tensors["value"]["layers.0.q_proj.B"],
        random_state(TENANTS[0], CONFIG).tensors["value"]["layers.0.q_proj.B"],
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda tensors: tensors.pop("layers.0.q_proj.A"), r"state of tenant 'a': 'layers.0.q_proj.A' is missing"),
        (
            lambda tensors: tensors.update({"layers.0.up_proj.A": torch.zeros(4, 64)}),
            r"'layers.0.up_proj.A' is not part of it",
        ),
        (
            lambda tensors: tensors.update({"layers.3.v_proj.B": torch.zeros(4, 4)}),
            r"has shape \(4, 4\), not \(32, 4\)",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, text):
    state = random_state(TENANTS[0], CONFIG)
    change(state.tensors["value"])

    with pytest.raises(BadInput, match=text):
        engine().load(state)


def test_an_unknown_kind_and_an_unknown_tenant_are_refused():
    with pytest.raises(BadInput, match=r"there is no kind 'momentum'; use value, mean, square, gradient"):
        engine().load(TenantState(TENANTS[0], {"momentum": {}}))
    with pytest.raises(BadInput, match=r"there is no tenant 'd'; the plan has a, b"):
        engine().load(random_state(TENANTS[3], CONFIG))


def test_a_tenant_cannot_change_in_mid_stream():
    with pytest.raises(BadInput, match=r"tenant 'b': the new plan changes it; end it and give it a new name"):
        engine().deploy(replace(PLAN, tenants=(TENANTS[0], replace(TENANTS[1], rank=8))))


def test_a_step_before_any_deployment_is_refused():
    job = Job(PLAN, ())

    with pytest.raises(BadInput, match=r"a deployment plan must come before it"):
        Engine(job.config, job.weights(), job.tokens(), job.settings).run_step(work(0))


def test_bfloat16_trains_within_its_precision_with_adapters_in_float32():
    losses = {}
    for dtype in ("float32", "bfloat16"):
        job = Job(PLAN, (), settings=Settings(dtype=dtype))
        made = Engine(job.config, job.weights(), job.tokens(), job.settings)
        made.deploy(PLAN)
        losses[dtype] = [made.run_step(work(number)).mean_losses for number in range(3)][-1]
        assert made.export("b").tensors["value"]["layers.0.q_proj.B"].dtype == torch.float32

    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.02)
