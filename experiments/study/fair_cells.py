"""The cells of the fair matrix out of the results of its points: who is best on each side, and what that decides.

Either side of a cell is the plan that was fastest on the planning batches among all that the cell allows; what it costs
is what it cost on the batches that came. The side of mixes may also choose equal replicas.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.study.fair_matrix import (
    ADAPTER_COSTS,
    BATCHINGS,
    LOBRA,
    MEMORIES,
    MODELS,
    PACKED,
    RECOMPUTE,
    Cell,
    Options,
    cells,
)
from experiments.study.fair_paired import Costs, Ratio, ratio
from experiments.study.fair_verdicts import Verdict, falsifier, flags_of, survival
from experiments.study.point import Results


@dataclass(frozen=True, slots=True)
class Side:
    """The plan of one side of a cell, and what it cost."""

    summary: str
    gpu_seconds: Mapping[int, Costs]  # by times the cost of an adapter run
    basis: tuple[str, bool]  # status, and whether it extrapolates


@dataclass(frozen=True, slots=True)
class Compared:
    """A cell with both sides and LobRA as published and packed, in the same memory, without any option."""

    cell: Cell
    equal: Side
    mix: Side
    lobra: Side | None
    lobra_packed: Side | None

    def saving(self, times: int = 1) -> Ratio:
        """The mix over equal replicas."""
        return ratio(self.mix.gpu_seconds[times], self.equal.gpu_seconds[times])

    def survival(self, times: int = 1) -> Verdict:
        """Whether the mix saves something that equal replicas with the same options cannot have."""
        return survival(self.saving(times), flags_of(self.mix.basis, self.equal.basis))

    def falsifier(self, times: int = 1, *, packed: bool = False) -> Verdict | None:
        """Whether the equal replicas are within 20 % of LobRA, padded as published, or packed."""
        rival = self.lobra_packed if packed else self.lobra
        if rival is None:
            return None
        over = ratio(self.equal.gpu_seconds[times], rival.gpu_seconds[times])
        return falsifier(over, flags_of(self.equal.basis, rival.basis))

    def over(self, *, packed: bool = False) -> float | None:
        """What the equal replicas cost over LobRA."""
        rival = self.lobra_packed if packed else self.lobra
        return None if rival is None else self.equal.gpu_seconds[1].mean / rival.gpu_seconds[1].mean


def compared(results: Results) -> list[Compared]:
    """Every cell that can be filled, in the order of the matrix."""
    runs = list(_runs(results))
    seen = {(run["model"], run["memory"], run["batching"]) for run in runs}
    models = tuple(name for name in (*MODELS, "small") if any(name == model for model, _, _ in seen))
    found = []
    for cell in cells(models, tuple(MEMORIES), tuple(BATCHINGS)):
        equal, mix = side(runs, cell, mixed=False), side(runs, cell, mixed=True)
        if equal is not None and mix is not None and was_searched(results, cell):
            rivals = [
                side(runs, Cell(cell.model, cell.memory, batching, Options()), mixed=True)
                for batching in (LOBRA, PACKED)
            ]
            found.append(Compared(cell, equal, mix, *rivals))
    return found


def side(runs: list[dict[str, Any]], cell: Cell, *, mixed: bool) -> Side | None:
    """The plan that is best on the planning batches: of equal replicas, or of any; None where there is none."""
    where = (cell.model, cell.memory, cell.batching)
    allowed = [
        run
        for run in runs
        if (run["model"], run["memory"], run["batching"]) == where
        and cell.options.allows(run["options"])
        and (mixed or not run["mixed"])
    ]
    best = min(allowed, key=lambda run: (run["planning_seconds"], run["order"]), default=None)
    if best is None or "gpu_seconds" not in best:
        return None
    costs = {times: Costs(tuple(best["gpu_seconds"][str(times)]), tuple(best["draws"])) for times in ADAPTER_COSTS}
    return Side(best["summary"], costs, (best["status"], best["extrapolated"]))


def all_runs(results: Results) -> list[dict[str, Any]]:
    """What was judged: a plan with a batching, in one setting, with what it may use."""
    return list(_runs(results))


def _runs(results: Results) -> Iterator[dict[str, Any]]:
    for number, point in enumerate(results.values()):
        setting = {"model": point["model"], "memory": point["memory"]}
        for batching, played in point["played"].items():
            for row in played:
                plan = point["plans"][row["plan"]]
                together = f", {row['shards']} together" if row.get("shards", 1) > 1 else ""
                yield {
                    **setting,
                    **row,
                    "batching": batching,
                    "order": (number, row["plan"]),  # of equals the first, as in the point
                    "mixed": plan["mixed"],
                    "summary": plan["summary"] + together,
                    "options": Options(plan["recompute"], plan["fsdp"], point["cp"]),
                }


def was_searched(results: Results, cell: Cell) -> bool:
    """Whether the cell's options were searched at all; the quick sweep leaves most of them out."""
    here = [p for p in results.values() if (p["model"], p["memory"]) == (cell.model, cell.memory)]
    points = [point for point in here if point["cp"] == cell.options.cp and cell.batching in point["played"]]
    return any(
        RECOMPUTE.index(cell.options.recompute) <= max(map(RECOMPUTE.index, point["recompute"]))
        and cell.options.fsdp <= point["sharded"]
        for point in points
    )
