"""Every bound against every dispatch: brute force by the plain formula, written without the code it judges."""

import numpy as np
import pytest

from policies.bounds.best import (
    EVALUATOR,
    FLUID,
    LATENCY,
    LEVELS,
    PATTERNS,
    SIMULATOR,
    Bound,
    best_bound,
    mean_bound,
)
from policies.bounds.configuration import configuration_bound
from policies.bounds.fluid import fluid_bound
from policies.bounds.latency import latency_bound
from policies.bounds.level import level_bound, level_each
from policies.dispatch.balanced import Balanced
from policies.dispatch.fleet import Fleet
from policies.evaluate import count_seconds
from unit.policies.dispatch.worlds import loads, optimum, plain_makespan, random_fleet

BOUNDS = (fluid_bound, latency_bound, level_bound, configuration_bound)
INSTANCES = 200


def coarse(fleet_loads, replicas, counts, at_most=float("inf")):
    """The configuration bound on a grid that is coarse, for speed."""
    return configuration_bound(fleet_loads, replicas, counts, at_most, cells=150)


@pytest.fixture(scope="module")
def solved():
    """Small random steps, pipelines and equal machines among them: bounds, ours, and the optimum by trying all."""
    random, found = np.random.default_rng(23), []
    for number in range(INSTANCES):
        fleet = random_fleet(random, machines=3, buckets=3, pipelines=number % 2 == 0)
        if number % 4 == 1:  # two machines of one kind
            fleet = Fleet(fleet.loads[1:], np.array([0, 0, 1]))
        counts = random.integers(0, 6, 3)
        best, sizes = optimum(fleet, counts.tolist()), fleet.sizes.tolist()
        bounds = [bound(fleet.loads, sizes, counts) for bound in (fluid_bound, latency_bound, level_bound)]
        bounds.append(coarse(fleet.loads, sizes, counts, best * 1.1))
        found.append((bounds, plain_makespan(fleet, Balanced(work=40).balance(fleet, counts)), best))
    return found


def test_no_dispatch_is_below_a_bound(solved):
    for bounds, _, best in solved:
        assert max(bounds) <= best * (1 + 1e-9)


def test_balanced_dispatch_is_optimal_nearly_always(solved):
    assert all(ours >= best * (1 - 1e-9) for _, ours, best in solved)
    assert sum(ours <= best * (1 + 1e-9) for _, ours, best in solved) >= 0.97 * INSTANCES


def test_each_bound_contains_the_simpler_ones(solved):
    for (fluid, latency, level, patterns), _, _ in solved:
        assert max(fluid, latency) <= level <= patterns


def test_whole_patterns_prove_most_small_steps_nearly_optimal(solved):
    gaps = sorted(best / bounds[-1] - 1 for bounds, _, best in solved if best > 0)

    assert gaps[len(gaps) // 2] < 0.01


@pytest.mark.parametrize("cells", [7, 60])
def test_the_configuration_bound_holds_on_the_coarsest_grids(cells):
    random = np.random.default_rng(3)
    for _ in range(15):
        fleet, counts = random_fleet(random), random.integers(0, 5, 3)
        best = optimum(fleet, counts.tolist())
        assert configuration_bound(fleet.loads, fleet.sizes.tolist(), counts, cells=cells) <= best * (1 + 1e-9)


def test_sequences_that_cannot_be_cut_lift_the_configuration_bound_to_the_truth():
    """Three sequences of a second on two machines: the fluid says 1.5 seconds, whole ones take 2."""
    kind = loads([1], [0.0], [1.0])

    assert level_bound([kind], [2], np.array([3])) == pytest.approx(1.5)
    assert configuration_bound([kind], [2], np.array([3]), 2.0) == pytest.approx(2.0, rel=1e-3)


def test_the_level_bound_charges_a_pipeline_for_its_bubble():
    """One machine of 3 stages, 8 sequences, micro-batches of one second each: 8 seconds of work and 2 of waiting."""
    kind = loads([1], [0.0], [1.0], stages=3)

    assert fluid_bound([kind], [1], np.array([8])) == pytest.approx(8)
    assert level_bound([kind], [1], np.array([8])) == pytest.approx(10, rel=1e-4)


def test_a_sequence_weighs_what_its_micro_batch_and_the_bubble_of_that_cost():
    kind = loads([2], [1.0], [1.0], stages=2)  # alone 2 seconds, two 3 seconds

    assert level_each(kind, np.array([9]), 10.0) == pytest.approx([min(2 / (1 - 0.2), 3 / 2 / (1 - 0.3))])
    assert level_each(kind, np.array([9]), 5.0) == pytest.approx([2 / (1 - 0.4)])  # two do not end in time
    assert level_each(kind, np.array([9]), 3.0).tolist() == [np.inf]


def test_micro_batches_of_more_sequences_than_there_are_lower_no_bound():
    kind = loads([8], [7.0], [1.0])

    assert fluid_bound([kind], [1], np.array([1])) == pytest.approx(15 / 8)
    assert level_bound([kind], [1], np.array([1])) == pytest.approx(8)


def test_the_best_bound_names_the_simplest_that_decides_and_what_it_holds_for():
    sequence, pipeline = loads([1], [0.0], [1.0]), loads([1], [0.0], [1.0], stages=3)

    decided = [
        best_bound([sequence], [2], np.array([400]), few=10),
        best_bound([sequence], [4], np.array([3])),
        best_bound([pipeline], [1], np.array([30]), few=10),
        best_bound([sequence], [2], np.array([3]), 2.0),
    ]

    assert [(bound.name, bound.holds_for) for bound in decided] == [
        (FLUID, SIMULATOR),
        (LATENCY, SIMULATOR),
        (LEVELS, EVALUATOR),
        (PATTERNS, SIMULATOR),
    ]
    assert [bound.simulator_seconds < bound.seconds for bound in decided] == [False, False, True, False]


def test_the_longest_sequences_of_a_full_step_are_bounded_by_themselves():
    """Two machines alone hold three sequences that cannot be cut; thousands of short ones fill everything else."""
    small, large = loads([10, 0], [0.0, 0.0], [0.01, 1.0]), loads([10, 1], [0.0, 0.0], [0.01, 1.0])
    counts = np.array([400, 3])

    bound = best_bound([small, large], [8, 2], counts, 2.1)

    assert (bound.name, bound.seconds) == (PATTERNS, pytest.approx(2.0, rel=2e-3))
    assert fluid_bound([small, large], [8, 2], counts) == pytest.approx(1.5)
    assert best_bound([small, large], [8, 2], counts, 2.1, few=1).name == FLUID


def test_a_sequence_alone_takes_what_the_exact_evaluator_says():
    random, one = np.random.default_rng(3), np.eye(3, dtype=np.int64)
    for _ in range(20):
        fleet = random_fleet(random)
        expected = np.min([count_seconds(kind, one) for kind in fleet.loads], axis=0)

        assert latency_bound(fleet.loads, [1] * 3, np.array([1, 4, 2])) == expected.max()
        assert latency_bound(fleet.loads, [1] * 3, np.array([0, 4, 0])) == expected[1]


def test_the_mean_of_bounds_says_how_each_step_was_bounded_and_holds_for_what_all_hold_for():
    flat, deep = Bound(2.0, FLUID, SIMULATOR, 2.0), Bound(4.0, LEVELS, EVALUATOR, 3.0)

    assert mean_bound([flat, deep, flat, deep]) == Bound(3.0, f"{FLUID} or {LEVELS}", EVALUATOR, 2.5)
    assert mean_bound([flat]) == flat
    assert mean_bound([flat]).words("one plan") == f"by the {FLUID}, over one plan: bounds {SIMULATOR}"
    assert mean_bound([deep]).words("it").endswith("; a simulator, which may wait less, takes 3.000 s at least")


def test_packed_rows_are_bounded_by_what_a_sequence_adds_at_the_least():
    kind = loads([1 << 31], [0.0], [1.0], longest=5.0)
    careful = type(kind)(kind.capacity, kind.fixed, kind.each, 0.0, 2, 5.0, np.array([0.8]))

    assert best_bound([careful], [2], np.array([100])).seconds == pytest.approx(40, rel=1e-3)


@pytest.mark.parametrize("bound", BOUNDS)
def test_nothing_to_do_takes_no_time(bound):
    assert bound([loads([4], [1.0], [0.5])], [2], np.array([0])) == 0
