"""Joint training over unequal replicas equals training every tenant alone, sequence by sequence, in one process."""

from dataclasses import replace

import numpy as np
import pytest

from distributed.pool import Pool
from distributed.reference import Reference, refs_of
from distributed.worlds import EXACT, LAYOUTS, TENANTS, Job, plan_of, sequences, step_of, without_update
from executor.settings import Settings

REFS = sequences(len(TENANTS), 6, seed=1)


def wrong(found, expected):
    """Largest relative error over a tenant's matrices, each by its largest element."""
    return max(
        float(np.abs(found[name] - value.detach().double().numpy()).max() / value.detach().abs().max())
        for name, value in expected.items()
    )


@pytest.fixture(scope="module")
def gradients():
    """Gradients and losses of every tenant, made once; they depend on no layout."""
    reference = Reference(Job(plan_of(LAYOUTS["TP1"]), ()))
    losses = reference.losses(REFS)
    return losses, {tenant.name: reference.gradients(tenant.name) for tenant in TENANTS}


FORMS = [(packed, recompute) for packed in (False, True) for recompute in (0, 1)]
EXTREME = ("TP8", "TP2xPP4", "TP1")  # beside the four layouts that jobs are made of; two forms are enough
CASES = [
    pytest.param(layout, *form, id=f"{layout}, {'packed' if form[0] else 'padded'}, recompute {form[1]}")
    for layout in LAYOUTS
    for form in (FORMS[::3] if layout in EXTREME else FORMS)
]


@pytest.mark.parametrize(("layout", "packed", "recompute"), CASES)
def test_every_gradient_equals_the_reference(pool: Pool, gradients, layout, packed, recompute):
    plan = plan_of(LAYOUTS[layout], recompute=recompute)
    shared = 2 if "shared" in layout else 0
    step = without_update(step_of(plan, REFS, 0, packed=packed, shared=shared))

    answers = pool.run("distributed.jobs", "train", Job(plan, (step,)))

    losses, expected = gradients
    assert np.allclose(answers[0]["results"][0].loss_sums, losses, rtol=1e-12, atol=0)
    states = answers[0]["states"]
    assert {name: wrong(states[name]["gradient"], each) < 1e-12 for name, each in expected.items()} == dict.fromkeys(
        expected, True
    )


def test_a_gradient_that_is_reduced_in_buckets_is_the_same(pool: Pool):
    """Buckets of 4 KiB cut matrices anywhere; three and more ranks of an all-reduce may then round otherwise."""
    plan = plan_of(LAYOUTS["PP3 | TP2xPP2 | TP1"])
    step = step_of(plan, REFS, 0, packed=True)
    whole, cut = (
        pool.run("distributed.jobs", "train", Job(plan, (step,), settings=replace(EXACT, bucket_bytes=size)))[0]
        for size in (1 << 26, 1 << 12)
    )

    assert cut["results"][0].gradient_norms == pytest.approx(whole["results"][0].gradient_norms, rel=1e-13)
    for name, states in whole["states"].items():
        for where, value in states["mean"].items():
            assert np.abs(cut["states"][name]["mean"][where] - value).max() <= 1e-13 * np.abs(value).max()


@pytest.mark.parametrize("lora", ["loop", "grouped"])
@pytest.mark.parametrize("layout", ["TP2xPP2 | TP2 | TP1 | TP1", "TP4 | TP2xPP2", "TP1 x 4, shared"])
def test_gradients_in_float32_are_within_2e_5(pool: Pool, gradients, layout, lora):
    plan = plan_of(LAYOUTS[layout])
    step = without_update(step_of(plan, REFS, 0, packed=True, shared=2 if "shared" in layout else 0))
    settings = Settings(dtype="float32", total_updates=10, lora=lora)

    states = pool.run("distributed.jobs", "train", Job(plan, (step,), settings=settings))[0]["states"]

    _, expected = gradients
    assert {name: wrong(states[name]["gradient"], each) < 2e-5 for name, each in expected.items()} == dict.fromkeys(
        expected, True
    )


@pytest.mark.parametrize("attention", ["loop", "mask"])
@pytest.mark.parametrize("lora", ["loop", "catmask"])
def test_every_back_end_gives_the_same_gradients(pool: Pool, gradients, attention, lora):
    plan = plan_of(LAYOUTS["TP4 | TP2xPP2"])
    step = without_update(step_of(plan, REFS, 0, packed=True))
    settings = Settings(dtype="float64", total_updates=10, attention=attention, lora=lora)

    states = pool.run("distributed.jobs", "train", Job(plan, (step,), settings=settings))[0]["states"]

    _, expected = gradients
    assert all(wrong(states[name]["gradient"], each) < 1e-12 for name, each in expected.items())


@pytest.mark.parametrize("layout", ["TP2xPP2 | TP2 | TP1 | TP1", "TP1 x 4, shared", "TP4 | TP2xPP2"])
def test_dropout_depends_on_no_layout(pool: Pool, layout):
    tenants = tuple(replace(tenant, dropout=0.2 + 0.1 * i) for i, tenant in enumerate(TENANTS))
    plan = plan_of(LAYOUTS[layout], tenants, recompute=1)
    step = without_update(step_of(plan, REFS, 5, packed=True, shared=2 if "shared" in layout else 0))
    job = Job(plan, (step,))

    states = pool.run("distributed.jobs", "train", job)[0]["states"]

    reference = Reference(job)
    reference.losses(REFS, step=5)
    assert all(wrong(states[name]["gradient"], reference.gradients(name)) < 1e-12 for name in states)


def directives(layouts, packed=True):
    """Three steps of new sequences; a deployment plan before a step whose layout differs from that before it."""
    plans = [plan_of(LAYOUTS[layout], recompute=1) for layout in layouts]
    steps, before = [], plans[0]
    for number, plan in enumerate(plans):
        if plan != before:
            steps.append(plan)
        shared = 1 if "shared" in layouts[number] else 0
        refs = sequences(len(TENANTS), 5, seed=20 + number)
        steps.append(step_of(plan, refs, number, packed=packed, seed=number, shared=shared))
        before = plan
    return plans[0], tuple(steps)


TRAINED = {
    "one layout": ("TP2xPP2 | TP2 | TP1 | TP1",) * 3,
    "three layouts": ("PP3 | TP2xPP2 | TP1", "TP4 | TP2xPP2", "TP1 x 4, shared"),
    "one rank": ("TP1",) * 3,
}


@pytest.mark.parametrize("fresh", [False, True], ids=["from random", "from zero"])
@pytest.mark.parametrize("layouts", TRAINED)
def test_after_three_updates_parameters_are_within_a_billionth_of_the_rate(pool: Pool, layouts, fresh):
    plan, steps = directives(TRAINED[layouts])
    job = Job(plan, steps, fresh=fresh)

    answers = pool.run("distributed.jobs", "train", job)

    reference = Reference(job)
    for step in steps:
        if hasattr(step, "work"):
            refs = refs_of(step)
            reference.losses(refs, step=step.step)
            counts = [sum(ref.labels for ref in refs if ref.tenant == tenant) for tenant in range(len(TENANTS))]
            reference.update(counts)
    for tenant in TENANTS:
        found = answers[0]["states"][tenant.name]["value"]
        worst = max(
            float(np.abs(found[name] - value.detach().numpy()).max())
            for name, value in reference.adapters[tenant.name].items()
        )
        assert worst < 1e-9 * tenant.learning_rate
    assert answers[0]["counters"] == {tenant.name: (3, 0, 0) for tenant in TENANTS}
    assert_copies_agree(answers)


def assert_copies_agree(answers):
    """Ranks that hold the same rectangle hold the same bits."""
    seen = {}
    for answer in answers:
        for where, bits in answer["bits"].items():
            assert seen.setdefault(where, bits) == bits


def test_gradients_wait_over_a_redeployment(pool: Pool):
    """Half a batch on one layout, half on another, one update: the same as the whole batch at once."""
    first, second = plan_of(LAYOUTS["PP3 | TP2xPP2 | TP1"]), plan_of(LAYOUTS["TP4 | TP2xPP2"])
    halves = sequences(len(TENANTS), 3, seed=31), sequences(len(TENANTS), 3, seed=32)
    whole = step_of(first, [*halves[0], *halves[1]], 0, packed=True)
    split = (
        without_update(step_of(first, halves[0], 0, packed=True)),
        second,
        step_of(second, halves[1], 1, packed=False),
    )

    one, two = (pool.run("distributed.jobs", "train", Job(first, steps))[0] for steps in ((whole,), split))

    for tenant in TENANTS:
        for name, value in one["states"][tenant.name]["value"].items():
            assert np.abs(value - two["states"][tenant.name]["value"][name]).max() < 1e-9 * tenant.learning_rate
    assert one["counters"] == two["counters"] == {tenant.name: (1, 0, 0) for tenant in TENANTS}


def test_a_tenant_may_come_and_another_go(pool: Pool):
    """After a re-deployment with other tenants, those that stayed go on as if nothing had happened."""
    stay, leave, come = TENANTS[1], TENANTS[0], TENANTS[3]
    before, after = (plan_of(LAYOUTS["TP4 | TP2xPP2"], each) for each in ((leave, stay), (stay, come)))
    alone = plan_of(LAYOUTS["TP4 | TP2xPP2"], (stay,))
    refs = [sequences(1, 4, seed=41 + step) for step in range(2)]

    def step(plan, number, mine):
        renamed = [ref._replace(tenant=mine) for ref in refs[number]]
        others = [ref._replace(tenant=1 - mine, index=ref.index + 50) for ref in refs[number]]
        return step_of(plan, renamed + (others if len(plan.tenants) > 1 else []), number, packed=True)

    moved = (step(before, 0, 1), after, step(after, 1, 0))
    settled = (step(alone, 0, 0), step(alone, 1, 0))

    one = pool.run("distributed.jobs", "train", Job(before, moved))[0]
    two = pool.run("distributed.jobs", "train", Job(alone, settled))[0]

    assert one["counters"] == {"b": (2, 0, 0), "d": (1, 0, 0)}
    for name, value in two["states"]["b"]["value"].items():
        assert np.abs(value - one["states"]["b"]["value"][name]).max() < 1e-9 * stay.learning_rate
