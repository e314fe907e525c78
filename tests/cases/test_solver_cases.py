"""What went wrong with solvers elsewhere and must not here: licences, limits, lost incumbents, wrong optima."""

import itertools
import math
import time

import numpy as np
import pytest

import toys
from policies.batching.padded import Padded
from policies.dispatch.balanced import Balanced
from policies.dispatch.cheapest import CheapestFit
from policies.evaluate import work_seconds
from policies.policy import step_plan
from policies.solvers import solve
from unit.policies.solvers.programs import INF, bin_packing, brute_force, first_fit, gurobi_or_skip, program

ROOM, BINS = 100, 40
SIZES = np.random.default_rng(60).integers(10, 60, 60).tolist()


def bins_of(solution, items, bins):
    """Items in every bin, from a point of the bin-packing program."""
    return np.asarray(solution.values)[: items * bins].reshape(items, bins)


@pytest.mark.gurobi
def test_a_program_too_large_for_the_licence_falls_back_with_a_notice():
    """yoon28/pymht#5, cat538/MxMoE#4, opencobra/cobratoolbox#2239: 60 samples in 40 bins are 2,440 columns."""
    gurobi_or_skip()

    solution = solve(bin_packing(SIZES, ROOM, BINS), solver="gurobi", time_limit_seconds=0.5)

    if solution.solver.startswith("Gurobi"):
        pytest.skip("this licence has no limit of size")
    assert solution.solver.startswith("HiGHS")
    assert "licence too small for this program; HiGHS answered instead" in solution.notice


def test_at_the_time_limit_the_incumbent_is_returned_and_labelled():
    """scipy/scipy#16545: a feasible point was found, and thrown away."""
    packing = bin_packing(SIZES, ROOM, BINS)
    start = first_fit(SIZES, ROOM, BINS)

    solution = solve(packing, time_limit_seconds=0.05, start=start)

    assert solution.status == "time_limit"
    placed = bins_of(solution, len(SIZES), BINS)
    assert placed.sum(axis=1).tolist() == [1] * len(SIZES)
    assert (np.array(SIZES) @ placed <= ROOM).all()
    assert solution.objective <= packing.objective(start)
    assert solution.bound <= solution.objective


@pytest.mark.parametrize("low", [-INF, -1e6])
def test_a_time_limit_is_kept_where_the_solver_could_search_for_ever(low):
    """ERGO-Code/HiGHS#885, #947, #2226: 2x - 4y + 6z = 21 has no whole solution, whatever the box."""
    parity = program([0, 0, 0], [[2, -4, 6]], [21], [21], low=low, high=-low, integer=True)

    begin = time.monotonic()
    solution = solve(parity, time_limit_seconds=1)

    assert time.monotonic() - begin <= 3
    assert solution.status in ("infeasible", "time_limit", "unknown")
    assert solution.values is None


def test_a_limited_solve_never_claims_optimality_nor_loses_to_greedy():
    """coin-or/pulp#649, evcc-io/optimizer PR#124; a peer's packer: "optimal" with 45 bins where greedy needs 19."""
    sizes = np.random.default_rng(96).integers(5, 45, 96).tolist()
    packing, greedy = bin_packing(sizes, ROOM, 96), first_fit(sizes, ROOM, 96)

    solution = solve(packing, time_limit_seconds=0.3, relative_gap=0, start=greedy)

    assert solution.objective <= packing.objective(greedy)
    assert solution.status == "time_limit" or solution.objective == math.ceil(sum(sizes) / ROOM)


def test_a_dispatch_cut_off_at_once_is_still_no_worse_than_by_length():
    """coin-or/pulp#649: the planner's own search keeps what it began with."""
    plan, cost = toys.plan((1, 1, 6), (2, 1, 1), (4, 1, 2)), toys.ToyCost()
    for seed in range(5):
        batch = next(toys.workload(seed).batches(1))
        seconds = [
            max(work_seconds(work, replica, cost) for work, replica in zip(step.work, plan.replicas, strict=True))
            for step in (step_plan(batch, plan, Padded(), policy, cost) for policy in (Balanced(work=0), CheapestFit()))
        ]
        assert seconds[0] <= seconds[1]


@pytest.mark.parametrize("seed", range(12))
def test_optima_and_bounds_hold_against_trying_everything(seed):
    """ERGO-Code/HiGHS#2349, #2382: a wrong optimum or bound for some seeds."""
    random = np.random.default_rng(seed)
    whole = program(
        random.integers(-9, 10, 5),
        random.integers(-5, 9, (4, 5)),
        np.where(random.random(4) < 0.4, random.integers(-3, 3, 4), -INF),
        random.integers(3, 20, 4),
        high=3,
        integer=True,
    )

    solution, best = solve(whole, relative_gap=0), brute_force(whole)

    if math.isinf(best):
        assert (solution.status, solution.values) == ("infeasible", None)
    else:
        assert (solution.status, solution.objective) == ("optimal", pytest.approx(best))
        assert solution.bound <= best + 1e-6


def test_a_packing_needs_at_least_its_volume_and_no_more_than_the_best_of_all():
    """ERGO-Code/HiGHS#2349: an independent check of feasibility and bound."""
    sizes = [41, 38, 35, 33, 27, 26]

    solution = solve(bin_packing(sizes, ROOM, 4), relative_gap=0)

    best = min(
        len(set(places))
        for places in itertools.product(range(4), repeat=len(sizes))
        if all(sum(s for s, p in zip(sizes, places, strict=True) if p == place) <= ROOM for place in range(4))
    )
    assert math.ceil(sum(sizes) / ROOM) <= solution.objective == best
