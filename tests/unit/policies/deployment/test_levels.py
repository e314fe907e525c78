"""The level program against every plan and every dispatch of it, judged by the plain formula with bubbles."""

from dataclasses import replace

import numpy as np
import pytest

from lobra.plan import ReplicaConfig
from policies.bounds.best import EVALUATOR, FLUID, LATENCY
from policies.bounds.level import level_bound
from policies.deployment.classes import Classes, Table
from policies.deployment.levels import level_outcome
from policies.deployment.placement import Kind
from policies.deployment.proof import proof
from policies.deployment.rounds import rounds
from policies.deployment.tau import Fluid
from policies.dispatch.fleet import Fleet
from unit.policies.deployment.instances import EXACT, every_plan, one_node
from unit.policies.dispatch.worlds import loads, optimum

SHAPES = ((1, 1), (2, 1), (1, 2), (1, 4))


def instance(seed, batches=2):
    """Kinds with true micro-batches, of which pipelines are the cheaper, and two small batches of two classes."""
    random = np.random.default_rng([seed, 3])
    chosen = [SHAPES[0], *(SHAPES[place] for place in sorted(random.choice([1, 2, 3], 2, replace=False).tolist()))]
    kinds = [Kind(ReplicaConfig(*shape), 100 * shape[0] * shape[1]) for shape in chosen]
    priced = []
    for kind in kinds:
        gpus, pp = kind.config.gpus, kind.config.pp
        fixed, each = random.uniform(0.1, 0.6, 2) / gpus, np.array([1.0, 3.0]) * random.uniform(0.8, 1.2) / gpus
        priced.append(loads([int(random.integers(1, 4)), int(gpus > 1)], fixed, each, stages=pp))
    fits = np.stack([one.capacity > 0 for one in priced])
    full = np.stack([one.fixed + one.each * one.capacity for one in priced])
    single = np.stack([one.fixed + one.each for one in priced])
    stages = np.array([kind.config.pp for kind in kinds])[:, None]
    least = np.where(fits, full / np.maximum([one.capacity for one in priced], 1), np.inf)
    prices = Table(
        tuple(kinds), tuple(priced), least, np.where(fits, full, np.inf), np.where(fits, stages * single, np.inf), least
    )
    by_batch = random.integers(1, 5, (batches, 2)).astype(float)
    return Fluid(prices, one_node(4), 1, EXACT), by_batch


def true_optimum(fluid, by_batch):
    """Mean seconds of the best plan with the best dispatch of each batch, by trying everything."""
    best = np.inf
    for counts in every_plan(fluid.prices, fluid.cluster, fluid.longest):
        used = [kind for kind, count in enumerate(counts) if count]
        if any(all(fluid.prices.loads[kind].capacity[j] < 1 for kind in used) for j in range(2)):
            continue
        machines = np.repeat(np.arange(len(used)), [counts[kind] for kind in used])
        fleet = Fleet(tuple(fluid.prices.loads[kind] for kind in used), machines)
        best = min(best, np.mean([optimum(fleet, amounts.astype(int).tolist()) for amounts in by_batch]))
    return float(best)


@pytest.fixture(scope="module")
def solved():
    found = []
    for seed in range(24):
        fluid, by_batch = instance(seed)
        best, known = true_optimum(fluid, by_batch), rounds(fluid, by_batch)
        found.append((fluid, by_batch, best, known, level_outcome(fluid, by_batch, best, known.least)))
    return found


def test_no_plan_and_no_dispatch_is_faster_than_the_level_program_says(solved):
    for _, _, best, _, charged in solved:
        assert charged.bound_seconds <= best


def test_it_holds_for_any_plan_that_is_known_good_or_bad(solved):
    for fluid, by_batch, best, known, charged in solved[:12]:
        poor = level_outcome(fluid, by_batch, 1.5 * best, known.least)

        assert poor.bound_seconds <= charged.bound_seconds * (1 + 1e-3)
        assert known.relaxed.bound_seconds <= poor.bound_seconds * (1 + 1e-3)


def test_it_proves_more_than_the_fluid_where_pipelines_wait(solved):
    gaps = [
        (best / known.relaxed.bound_seconds - 1, best / charged.bound_seconds - 1)
        for *_, best, known, charged in solved
    ]

    before, after = np.mean(gaps, axis=0)

    assert after < 0.8 * before


def test_with_one_possible_plan_it_is_that_plans_own_level_bound():
    kind = Kind(ReplicaConfig(1, 4), 100)
    own = loads([1, 1], [0.0, 0.0], [1.0, 2.0], stages=4)
    each = np.array([[1.0, 2.0]])
    fluid = Fluid(Table((kind,), (own,), each, each, 4 * each, each), one_node(4), 1, EXACT)
    amounts = np.array([[20.0, 5.0]])

    charged = level_outcome(fluid, amounts, level_bound([own], [1], np.array([20, 5])), rounds(fluid, amounts).least)

    assert charged.bound_seconds == pytest.approx(level_bound([own], [1], np.array([20, 5])), rel=3e-4)  # tangents
    assert charged.bound_seconds > 30 * 1.05


def test_the_certificate_names_the_bound_that_won_and_what_it_bounds(solved):
    fluid, by_batch, best, known, charged = max(
        solved, key=lambda one: one[4].bound_seconds / one[3].relaxed.bound_seconds
    )
    classes = Classes((), by_batch)

    (with_levels, program), (without, other) = (
        proof(fluid, classes, known.relaxed, known, known=best, levels=levels) for levels in (True, False)
    )

    assert (with_levels.seconds, with_levels.holds_for) == (charged.bound_seconds, EVALUATOR)
    assert (program, other) == (charged, known.relaxed)
    assert with_levels.words("all plans").startswith("by the level program")
    simulated = known.relaxed.bound_seconds
    assert f"a simulator, which may wait less, takes {simulated:.3f} s at least" in with_levels.words("all plans")
    assert without.name in (FLUID, LATENCY)
    assert without.simulator_seconds == with_levels.simulator_seconds == simulated


def test_where_the_plan_is_as_fast_as_the_fluid_no_more_is_asked(solved):
    fluid, by_batch, _, known, _ = solved[0]
    classes, seconds = Classes((), by_batch), known.relaxed.bound_seconds

    near, _ = proof(fluid, classes, replace(known.relaxed, bound_seconds=100.0), known, known=100.0, levels=True)

    assert (near.seconds, near.name) == (100.0, FLUID)
    assert proof(fluid, classes, None, None, known=seconds, levels=True)[0].name == LATENCY
