"""Results of the sensitivity study as rows: a lever's position with its three answers; and grids of one answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.study.fair_paired import Costs, Ratio, ratio, saved
from experiments.study.fair_verdicts import WITHIN, falsifier
from experiments.study.point import Results
from experiments.study.sensitivity_levers import (
    BASE,
    HIGH,
    LOBRA,
    LOBRA_PACKED,
    PACKED,
    PADDED,
    POLICIES,
    SETTINGS,
    levers,
)
from lobra.batch import Array


@dataclass(frozen=True, slots=True)
class Row:
    """One position: cost over cost of the three comparisons, and what was planned."""

    setting: str
    lever: str
    title: str
    side: str
    position: str
    padded: Ratio  # LobRA over Task-Fused
    packed: Ratio  # both packed
    within: Ratio  # packed Task-Fused over padded LobRA
    winner: str
    plans: Mapping[str, str]

    @property
    def headline(self) -> float:
        """What LobRA saves of the padded baseline."""
        return 1 - self.padded.value

    @property
    def survival(self) -> float:
        """What packed LobRA saves of the packed baseline."""
        return 1 - self.packed.value

    @property
    def falsifier(self) -> float:
        """The packed baseline's cost over padded LobRA's."""
        return self.within.value

    @property
    def fires(self) -> bool:
        """Whether the packed baseline is within 20 % of padded LobRA."""
        return self.within.value <= WITHIN

    @property
    def verdict(self) -> str:
        """The falsifier's word."""
        return str(falsifier(self.within))

    def cells(self) -> dict[str, Any]:
        """As a line of the table."""
        padded, packed = saved(self.padded)[1], saved(self.packed)[1]
        return {
            "setting": self.setting,
            "lever": self.title,
            "position": self.position,
            "saves": self.headline,
            "saves_low": padded and padded[0],
            "saves_high": padded and padded[1],
            "packed_saves": self.survival,
            "packed_saves_low": packed and packed[0],
            "packed_saves_high": packed and packed[1],
            "packed_baseline_over_lobra": self.falsifier,
            "falsifier": self.verdict,
            "cheapest": self.winner,
        } | {f"plan_{name}": self.plans[name] for name in POLICIES}


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The headline over bandwidth between nodes and tensor efficiency, at one memory; NaN where nothing fits."""

    setting: str
    memory: float  # GiB
    between: tuple[float, ...]  # GB/s, ascending
    efficiency: tuple[float, ...]  # a doubling, ascending
    saving: Array  # float64 [efficiency, between]

    def crossing(self, wanted: float) -> list[tuple[float, float]]:
        """(efficiency, bandwidth) at which the saving passes `wanted`, between neighbours on the logarithm."""
        found, where = [], np.log(self.between)
        for efficiency, values in zip(self.efficiency, self.saving, strict=True):
            for i in range(len(where) - 1):
                left, right = values[i] - wanted, values[i + 1] - wanted
                if left == 0 or left * right < 0:
                    part = left / (left - right) if left != right else 0.0
                    found.append((efficiency, float(np.exp(where[i] + part * (where[i + 1] - where[i])))))
        return found

    def lines(self, wanted: float) -> list[str]:
        """Where the wanted saving is met, for people."""
        ends = np.nanmin(self.saving), np.nanmax(self.saving)
        met = [f"{between:.1f} GB/s at efficiency {efficiency:g}" for efficiency, between in self.crossing(wanted)]
        head = f"{self.setting}, {self.memory:g} GiB: LobRA saves {ends[0]:.1%} to {ends[1]:.1%} on the grid"
        return [f"{head}; {wanted:.2%} at {', '.join(met) or 'none of its points'}"]


def rows(results: Results) -> list[Row]:
    """Every position of which all four policies were planned."""
    return list(_rows(results))


def _rows(results: Results) -> Iterator[Row]:
    for point, result in results.items():
        setting, _, rest = point.partition("_")
        bodies = {name: body for name, body in result["policies"].items() if "failed" not in body}
        if rest.startswith("grid") or not set(POLICIES) <= bodies.keys():
            continue
        lever, _, side = rest.partition("_")
        title, position = _told(setting, lever, side)
        costs = {name: Costs(tuple(bodies[name]["gpu_seconds_per_step"])) for name in POLICIES}
        yield Row(
            setting=setting,
            lever=lever,
            title=title,
            side=side,
            position=position,
            padded=ratio(costs[LOBRA], costs[PADDED]),
            packed=ratio(costs[LOBRA_PACKED], costs[PACKED]),
            within=ratio(costs[PACKED], costs[LOBRA]),
            winner=min(POLICIES, key=lambda name: costs[name].mean),
            plans={name: bodies[name]["plan"] for name in POLICIES},
        )


def _told(setting: str, lever: str, side: str) -> tuple[str, str]:
    """A lever's title and its position in words."""
    known = levers(SETTINGS[setting]) if setting in SETTINGS else {}
    if lever not in known:
        return lever, side or "-"
    position = known[lever].high if side == HIGH else known[lever].low
    return known[lever].title, position[0] if position else "-"


def grids(results: Results) -> list[Grid]:
    """A grid a setting and memory."""
    cells: dict[tuple[str, float], dict[tuple[float, float], float]] = {}
    for point, result in results.items():
        setting, _, rest = point.partition("_")
        if rest.startswith("grid"):
            here = cells.setdefault((setting, float(result["memory"])), {})
            here[result["efficiency"], result["between"]] = _headline(result["policies"])
    return [_grid(setting, memory, here) for (setting, memory), here in cells.items() if not _empty(here)]


def _grid(setting: str, memory: float, cells: Mapping[tuple[float, float], float]) -> Grid:
    efficiency, between = (tuple(sorted({key[axis] for key in cells})) for axis in (0, 1))
    saving = np.array([[cells.get((row, column), np.nan) for column in between] for row in efficiency])
    return Grid(setting, memory, between, efficiency, saving)


def _empty(cells: Mapping[tuple[float, float], float]) -> bool:
    return not any(np.isfinite(value) for value in cells.values())


def _headline(bodies: Mapping[str, Any]) -> float:
    """NaN where one of both could not be planned."""
    if any("failed" in bodies[name] for name in (PADDED, LOBRA)):
        return float("nan")
    costs = [Costs(tuple(bodies[name]["gpu_seconds_per_step"])) for name in (LOBRA, PADDED)]
    return 1 - ratio(*costs).value


def base_of(told: list[Row], setting: str) -> Row | None:
    """The setting as it is."""
    return next((row for row in told if row.setting == setting and row.lever == BASE), None)
