"""HiGHS: open, always there, one thread, one seed.

The time limit is enforced by us as well as by HiGHS: callbacks interrupt a search that overran, and a mixed-integer
search runs on a thread of its own, so that a HiGHS that hears neither is left behind with its last incumbent.
"""

import threading
import time
from dataclasses import dataclass, field

import highspy
import numpy as np

from lobra.batch import Array
from policies.solvers.check import best_incumbent
from policies.solvers.model import Limits, Program, Status

SEED = 7
DUAL_TOLERANCE = 1e-7  # of a reduced cost; bounds are lowered by what this may lift them
GRACE = 0.5  # seconds after its limit that a search has to hear the interrupt


class _Quiet(highspy.Highs):
    """HiGHS prints its banner when callbacks are enabled for the first time: be silent before that."""

    def enableCallbacks(self) -> None:  # noqa: N802  # HiGHS's name
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]  # highspy leaves it untyped


@dataclass(slots=True)
class Answer:
    """What a solver says, unchecked."""

    status: Status
    values: Array | None
    objective: float
    bound: float
    notice: str | None = None
    duals: Array | None = None  # of rows, where there are no integers


@dataclass(slots=True)
class _Watch:
    """Hears of incumbents and says when to stop."""

    deadline: float
    incumbents: list[Array] = field(default_factory=list)
    bound: float = -np.inf

    def improved(self, event: highspy.highs.HighsCallbackEvent) -> None:
        self.incumbents.append(np.array(event.data_out.mip_solution, dtype=np.float64))

    def interrupt(self, event: highspy.highs.HighsCallbackEvent) -> None:
        if time.monotonic() > self.deadline:
            event.interrupt()

    def progress(self, event: highspy.highs.HighsCallbackEvent) -> None:
        self.bound = max(self.bound, float(event.data_out.mip_dual_bound))
        self.interrupt(event)


def name() -> str:
    """The solver and its version, as a certificate quotes them."""
    return f"HiGHS {highspy.HIGHS_VERSION_MAJOR}.{highspy.HIGHS_VERSION_MINOR}.{highspy.HIGHS_VERSION_PATCH}"


def answer(program: Program, limits: Limits, start: Array | None = None) -> Answer:
    """HiGHS's answer to the program, at most a little later than the limit; `start` is a feasible point to begin at."""
    highs = _Quiet()  # type: ignore[no-untyped-call]  # likewise
    for option, value in (
        ("threads", 1),
        ("random_seed", SEED),
        ("mip_rel_gap", limits.relative_gap),
        ("dual_feasibility_tolerance", DUAL_TOLERANCE),
    ):
        highs.setOptionValue(option, value)
    highs.setOptionValue("time_limit", float(limits.seconds))
    if not limits.presolve:
        highs.setOptionValue("presolve", "off")
    if limits.nodes is not None:
        highs.setOptionValue("mip_max_nodes", limits.nodes)
    highs.passModel(_model(program))
    watch = _Watch(time.monotonic() + limits.seconds)
    highs.cbSimplexInterrupt.subscribe(watch.interrupt)
    highs.cbIpmInterrupt.subscribe(watch.interrupt)
    if not program.integer.any():
        _run(highs)
        return _read(highs, program, watch)
    if start is not None:
        hint = highspy.HighsSolution()
        hint.col_value = start.tolist()
        highs.setSolution(hint)
    highs.cbMipImprovingSolution.subscribe(watch.improved)
    highs.cbMipInterrupt.subscribe(watch.progress)
    search = threading.Thread(target=_run, args=(highs,), name="highs", daemon=True)
    search.start()
    search.join(limits.seconds + GRACE)
    if search.is_alive():
        text = f"HiGHS overran its limit of {limits.seconds:g} s and was left behind with its last incumbent"
        return _incumbent(program, watch, text)
    return _read(highs, program, watch)


def _run(highs: highspy.Highs) -> None:
    """Search; once more without presolve where that can only say that there is no optimum."""
    highs.run()
    if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        highs.setOptionValue("presolve", "off")
        highs.run()


def _model(program: Program) -> highspy.HighsLp:
    """The program in HiGHS's own nouns."""
    matrix = program.matrix.tocsc()
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = program.cost, program.low, program.high
    model.row_lower_, model.row_upper_ = program.row_low, program.row_high
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
    model.a_matrix_.value_ = matrix.data
    if program.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[whole] for whole in program.integer.tolist()]
    return model


def _read(highs: highspy.Highs, program: Program, watch: _Watch) -> Answer:
    """The answer of a HiGHS that has stopped."""
    model, info = highs.getModelStatus(), highs.getInfo()
    status = _status(model)
    has_point = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    integral = bool(program.integer.any())
    bound = float(info.mip_dual_bound) if integral else -np.inf
    if status == "optimal" and not integral:
        bound = float(info.objective_function_value)
    if has_point and status not in ("infeasible", "unbounded"):
        solution = highs.getSolution()
        values = np.array(solution.col_value, dtype=np.float64)
        duals = None if integral or status != "optimal" else np.array(solution.row_dual, dtype=np.float64)
        return Answer(status, values, float(info.objective_function_value), bound, duals=duals)
    if status == "time_limit" and integral:
        return _incumbent(program, watch, None)
    return Answer(status, None, np.inf, bound)


def _incumbent(program: Program, watch: _Watch, notice: str | None) -> Answer:
    """The best point heard of, for a search that ended without handing one over."""
    values = best_incumbent(program, tuple(watch.incumbents))
    objective = np.inf if values is None else program.objective(values)
    return Answer("time_limit", values, objective, watch.bound, notice)


def _status(model: highspy.HighsModelStatus) -> Status:
    """HiGHS's word in ours."""
    words: dict[highspy.HighsModelStatus, Status] = {
        highspy.HighsModelStatus.kOptimal: "optimal",
        highspy.HighsModelStatus.kModelEmpty: "optimal",
        highspy.HighsModelStatus.kInfeasible: "infeasible",
        highspy.HighsModelStatus.kUnbounded: "unbounded",
        highspy.HighsModelStatus.kTimeLimit: "time_limit",
        highspy.HighsModelStatus.kInterrupt: "time_limit",
        highspy.HighsModelStatus.kIterationLimit: "feasible",
        highspy.HighsModelStatus.kSolutionLimit: "feasible",
    }
    return words.get(model, "unknown")
