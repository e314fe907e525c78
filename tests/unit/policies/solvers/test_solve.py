"""The seam: what is asked, what comes back, and that claims are checked."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from lobra.errors import BadInput
from policies.solvers import gurobi, highs, solve
from policies.solvers.check import WrongClaim
from policies.solvers.highs import Answer
from unit.policies.solvers.programs import INF, bin_packing, brute_force, first_fit, gurobi_or_skip, program

KNAPSACK = program([-5, -4, -3], [[2, 3, 1], [4, 1, 2], [3, 4, 2]], [-INF] * 3, [5, 11, 8], high=3, integer=True)


def test_a_linear_program_is_solved_to_its_vertex():
    solution = solve(program([-3, -5], [[1, 0], [0, 2], [3, 2]], [-INF] * 3, [4, 12, 18]))

    assert solution.status == "optimal"
    assert solution.values == pytest.approx([2, 6])
    assert (solution.objective, solution.bound, solution.gap) == (pytest.approx(-36), pytest.approx(-36), 0)
    assert solution.solver.startswith("HiGHS 1.")
    assert solution.notice is None


def test_integers_come_back_exactly_whole():
    solution = solve(KNAPSACK)

    assert solution.objective == brute_force(KNAPSACK)
    assert all(value == int(value) for value in solution.values)


def test_rows_may_be_equal_one_sided_or_ranges():
    solution = solve(program([1, 2, 3], [[1, 1, 1], [1, 0, 0], [0, 1, 0]], [6, -INF, 1], [6, 2, 3]))

    assert solution.values == pytest.approx([2, 3, 1])


def test_a_program_without_rows_is_decided_by_its_bounds():
    assert solve(program([1, -1], [], [], [], low=2, high=5)).values.tolist() == [2, 5]


@pytest.mark.parametrize("integer", [False, True])
def test_infeasible_and_unbounded_programs_have_no_point(integer):
    infeasible = solve(program([1.0], [[1.0], [1.0]], [3, -INF], [INF, 2], integer=integer))
    unbounded = solve(program([-1.0], [[1.0]], [0], [INF], integer=integer))

    assert (infeasible.status, infeasible.values, infeasible.objective) == ("infeasible", None, INF)
    assert (unbounded.status, unbounded.values) == ("unbounded", None)
    assert infeasible.gap == unbounded.gap == INF


def test_a_start_is_never_lost():
    sizes = np.random.default_rng(0).integers(20, 70, 40).tolist()
    start = first_fit(sizes, 100, 30)

    solution = solve(bin_packing(sizes, 100, 30), time_limit_seconds=0.01, start=start)

    assert solution.objective <= bin_packing(sizes, 100, 30).objective(start)
    assert solution.status in ("time_limit", "optimal")


@pytest.mark.parametrize("start", [[9.0, 9.0, 9.0], [0.5, 0.0, 0.0], [0.0]])
def test_a_start_that_is_not_feasible_is_refused(start):
    with pytest.raises(BadInput, match="start is not feasible"):
        solve(KNAPSACK, start=np.array(start))


@pytest.mark.parametrize(
    ("knob", "text"),
    [
        ({"solver": "cplex"}, "solver is 'cplex'; choose highs, gurobi or auto"),
        ({"time_limit_seconds": 0.0}, "time_limit_seconds 0.0 must be above 0"),
        ({"relative_gap": -1.0}, "relative_gap -1.0 not below 0"),
    ],
)
def test_wrong_knobs_are_refused(knob, text):
    with pytest.raises(BadInput, match=text):
        solve(KNAPSACK, **knob)


def test_columns_that_do_not_match_the_matrix_are_refused():
    with pytest.raises(BadInput, match=r"row_high has shape \(3,\), but the matrix asks for \(2,\)"):
        program([1, 1], [[1, 0], [0, 1]], [0, 0], [1, 1, 1])
    with pytest.raises(BadInput, match="cost and matrix must be finite"):
        program([INF], [[1]], [0], [1])
    with pytest.raises(BadInput, match="a bound is not a number"):
        program([1], [[1]], [np.nan], [1])


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (Answer("optimal", np.array([9.0, 0, 0]), -45.0, -45.0), "outside the column bounds"),
        (Answer("optimal", np.array([3.0, 3, 3]), -36.0, -36.0), "violates a row"),
        (Answer("optimal", np.array([1.4, 0, 0]), -7.0, -7.0), "a fraction for an integer"),
        (Answer("optimal", np.array([1.0, 0, 0]), -13.0, -13.0), "claimed objective -13.0, but its point costs -5.0"),
        (Answer("optimal", np.array([2.0, 0, 0]), -10.0, -4.0), "claimed bound -4.0, but a feasible point costs -10.0"),
    ],
)
def test_a_wrong_claim_raises_instead_of_becoming_a_plan(monkeypatch, claim, text):
    monkeypatch.setattr(highs, "answer", lambda *_: claim)

    with pytest.raises(WrongClaim, match=text):
        solve(KNAPSACK)


def test_a_start_that_refutes_a_claimed_bound_raises(monkeypatch):
    monkeypatch.setattr(highs, "answer", lambda *_: Answer("infeasible", None, INF, INF))

    with pytest.raises(WrongClaim, match="the start refutes it"):
        solve(KNAPSACK, start=np.zeros(3))


def test_a_solver_deaf_to_its_limit_is_left_behind_with_its_last_incumbent(monkeypatch):
    release = threading.Event()

    def deaf(self):
        release.wait(10)

    monkeypatch.setattr(highs._Quiet, "run", deaf)
    monkeypatch.setattr(highs, "GRACE", 0.05)
    try:
        solution = solve(KNAPSACK, time_limit_seconds=0.05, start=np.array([1.0, 0, 0]))
    finally:
        release.set()

    assert (solution.status, solution.objective) == ("time_limit", -5)
    assert "overran its limit of 0.05 s" in solution.notice


@pytest.mark.parametrize("presolve", [True, False])
def test_a_search_that_ends_at_its_work_limit_hands_over_the_same_incumbent_each_time(presolve):
    sizes, room = [7, 6, 5, 5, 4, 4, 3, 3, 2, 2, 2], 10
    start = first_fit(sizes, room, 7)
    packing = bin_packing(sizes, room, 7)

    first, again = (solve(packing, node_limit=1, relative_gap=0.0, presolve=presolve, start=start) for _ in range(2))

    assert first.status in ("feasible", "optimal")
    assert first.bound <= first.objective <= packing.objective(start)
    assert (first.objective, first.bound) == (again.objective, again.bound)
    assert np.array_equal(first.values, again.values)


def test_a_work_limit_of_nothing_is_refused():
    with pytest.raises(BadInput, match="node_limit is 0"):
        solve(KNAPSACK, node_limit=0)


def test_without_gurobi_highs_answers_with_a_notice(monkeypatch):
    monkeypatch.setitem(sys.modules, "gurobipy", None)

    solution = solve(KNAPSACK, solver="auto")

    assert solution.solver.startswith("HiGHS")
    assert "Gurobi cannot be imported" in solution.notice
    assert solution.objective == brute_force(KNAPSACK)


@pytest.mark.parametrize(
    ("number", "text"), [(10009, "no valid licence"), (10010, "too small"), (10001, "error 10001")]
)
def test_every_failure_of_gurobi_falls_back(monkeypatch, number, text):
    gurobipy = pytest.importorskip("gurobipy")

    def refuse(*_):
        raise gurobipy.GurobiError(number, "refused")

    monkeypatch.setattr(gurobi, "_ask", refuse)

    solution = solve(KNAPSACK, solver="gurobi")

    assert solution.solver.startswith("HiGHS")
    assert text in solution.notice


@pytest.mark.gurobi
def test_both_solvers_find_equal_optima():
    gurobi_or_skip()
    random = np.random.default_rng(8)
    for _ in range(25):
        whole = program(
            random.integers(-9, 10, 5),
            random.integers(-4, 8, (4, 5)),
            np.where(random.random(4) < 0.3, 2, -INF),
            random.integers(3, 25, 4),
            high=random.integers(1, 5, 5),
            integer=random.random(5) < 0.7,
        )
        first, second = solve(whole, relative_gap=0), solve(whole, solver="gurobi", relative_gap=0)
        assert first.status == second.status
        assert first.objective == pytest.approx(second.objective, abs=1e-5)


@pytest.mark.gurobi
def test_gurobi_tells_infeasible_from_unbounded():
    gurobi_or_skip()

    assert solve(program([1.0], [[1.0]], [3], [2.0]), solver="gurobi").status == "infeasible"
    assert solve(program([-1.0], [[1.0]], [0], [INF], integer=True), solver="gurobi").status == "unbounded"


def test_solving_prints_nothing():
    code = (
        "import numpy, scipy.sparse\n"
        "from policies.solvers import Program, solve\n"
        "p = Program([1.0], scipy.sparse.csr_array([[1.0]]), [2.0], [9.0], [0.0], [9.0], [True])\n"
        "for solver in ('highs', 'gurobi'): assert solve(p, solver=solver).objective == 2\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (ran.stdout, ran.stderr) == ("", "")
