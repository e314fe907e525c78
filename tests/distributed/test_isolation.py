"""A tenant's results are bit for bit its own, whoever trains beside it and however they fail."""

from dataclasses import replace

import numpy as np
import pytest

from distributed.pool import Pool
from distributed.worlds import LAYOUTS, TENANTS, Job, plan_of, sequences, step_of
from executor.settings import Settings
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef

MINE = TENANTS[1]  # every module, so that all paths are met


def steps_with(plan, me, neighbours, packed):
    """Two steps; my sequences in the same micro-batches of the same replicas, neighbours' beside them or not at all."""
    mine, other = np.random.default_rng(5), np.random.default_rng(6)

    def row(tenant, generator, count):
        lengths = generator.integers(3, 20, count)
        return tuple(SequenceRef(tenant, int(generator.integers(1000)), int(n), int(n)) for n in lengths)

    def formed():
        count = 2 if packed else 1
        own = [row(me, mine, count) for _ in range(2)]
        beside = [row(tenant, other, count) for tenant in neighbours for _ in range(2)]
        return MicroBatch(tuple(sorted([*own, *beside])), 40 if packed else 20)

    return tuple(StepPlan(step, tuple((formed(), formed()) for _ in plan.replicas)) for step in range(2))


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("layout", ["TP2xPP2 | TP2 | TP1 | TP1", "TP4 | TP2xPP2", "PP3 | TP2xPP2 | TP1"])
def test_a_tenant_gets_the_same_bits_whoever_its_neighbours_are(pool: Pool, layout, packed):
    outcomes = []
    for tenants, me in (((MINE,), 0), ((MINE, TENANTS[0]), 0), ((TENANTS[0], TENANTS[2], MINE, TENANTS[3]), 2)):
        plan = plan_of(LAYOUTS[layout], tenants)
        neighbours = [i for i in range(len(tenants)) if i != me]
        job = Job(plan, steps_with(plan, me, neighbours, packed))
        answer = pool.run("distributed.jobs", "train", job)[0]
        losses = [result.loss_sums[me] for result in answer["results"]]
        norms = [result.gradient_norms[me] for result in answer["results"]]
        values = {name: value.tobytes() for name, value in answer["states"]["b"]["value"].items()}
        outcomes.append((losses, norms, values))

    assert outcomes[1] == outcomes[0]
    assert outcomes[2] == outcomes[0]


@pytest.mark.parametrize("layout", ["TP2xPP2 | TP2 | TP1 | TP1", "TP4 | TP2xPP2", "TP1 x 4, shared"])
def test_a_poisoned_tenant_is_set_aside_and_changes_no_bit_of_the_others(pool: Pool, layout):
    plan = plan_of(LAYOUTS[layout])
    refs = [sequences(len(TENANTS), 5, seed=50 + step) for step in range(4)]
    shared = 1 if "shared" in layout else 0
    steps = tuple(step_of(plan, each, n, packed=True, shared=shared) for n, each in enumerate(refs))

    healthy, sick = (
        pool.run("distributed.jobs", "train", Job(plan, steps, poison=poison))[0] for poison in ((), ("c",))
    )

    for name in "abd":
        for kind in ("value", "mean", "square"):
            for matrix, value in healthy["states"][name][kind].items():
                assert value.tobytes() == sick["states"][name][kind][matrix].tobytes()
    results = sick["results"]
    assert [result.skipped for result in results] == [(2,), (2,), (2,), ()]
    assert [result.quarantined for result in results] == [(), (), (2,), (2,)]
    assert [result.updated for result in results] == [(0, 1, 3)] * 4
    assert sick["counters"]["c"] == (0, 0, 3)
    assert [result.loss_sums[1] for result in results] == [result.loss_sums[1] for result in healthy["results"]]


def test_one_overflow_is_a_strike_and_no_quarantine(pool: Pool):
    """An overflowing step is skipped and counted; it is not yet a reason for quarantine."""
    wild = replace(TENANTS[0], alpha=1e300, name="w")
    plan = plan_of(LAYOUTS["TP1"], (wild, TENANTS[3]))
    refs = sequences(2, 3, seed=60)
    settings = Settings(dtype="float64", total_updates=10, quarantine_after=2)

    result = pool.run("distributed.jobs", "train", Job(plan, (step_of(plan, refs, 0, packed=True),), settings=settings))

    assert result[0]["results"][0].skipped == (0,)
    assert result[0]["counters"] == {"w": (0, 0, 1), "d": (1, 0, 0)}


def test_a_huge_but_finite_gradient_is_clipped_for_its_tenant_alone(pool: Pool):
    wild, tame = (replace(TENANTS[0], alpha=alpha, clip_norm=1.0) for alpha in (1e30, 8.0))
    outcomes = []
    for first in (wild, tame):
        plan = plan_of(LAYOUTS["TP4 | TP2xPP2"], (first, *TENANTS[1:]))
        steps = (step_of(plan, sequences(4, 4, seed=61), 0, packed=True),)
        outcomes.append(pool.run("distributed.jobs", "train", Job(plan, steps))[0])

    for name in "bcd":
        for matrix, value in outcomes[0]["states"][name]["value"].items():
            assert value.tobytes() == outcomes[1]["states"][name]["value"][matrix].tobytes()
    assert all(np.isfinite(value).all() for value in outcomes[0]["states"]["a"]["value"].values())
