"""What a question gives: figures with intervals, tables and charts as plain data, for terminal, JSON and report.

An answer knows no layout: the terminal prints its sentences and tables, `summary.json` holds all of it, and the report
draws its charts. Figures that do not exist stay None and are shown as a dash; NaN and infinities never get in.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lobra.errors import BadInput

SCHEMA = 1  # of the JSON form

Basis = Literal["measured", "derived", "roofline"]
Cell = str | float | int | None
Verdict = Literal["feasible", "infeasible", "undecided", "yes", "no", "told"]
ChartKind = Literal["line", "bar", "stacked", "tornado", "timeline"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its interval; `low` and `high` are None where its samples cannot bear one."""

    name: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    level: float = 0.9  # of the interval
    samples: int = 1  # seeds or draws behind it
    note: str = ""  # why it is undecided, or what it leaves out

    def __post_init__(self) -> None:
        for what, number in (("value", self.value), ("low", self.low), ("high", self.high)):
            if number is not None and not math.isfinite(number):
                raise BadInput(f"figure '{self.name}': {what} is {number}; give a finite number, or None for no answer")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: cells are text, numbers or None."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise BadInput(f"table '{self.title}': a row has {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True, slots=True)
class Series:
    """What one trace of a chart shows; `low` and `high` are interval ends of `y`, `text` labels its points.

    Of a timeline, `x` are starts and `y` are lengths, both in the unit of the x axis, and `rows` the line each lies on.
    """

    name: str
    x: tuple[Cell, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    text: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure as data; `tells` is the sentence a reader who cannot see it needs."""

    kind: ChartKind
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    tells: str


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is known about one question."""

    question: str  # "min-gpus"
    asks: str  # the question in a person's words
    verdict: Verdict
    sentences: tuple[str, ...]  # the answer first, then what limits it
    figures: tuple[Figure, ...]
    sheets: tuple[Sheet, ...]
    charts: tuple[Chart, ...]
    basis: Basis  # the weakest basis of the costs it rests on
    extrapolated: bool  # whether a cost was asked for outside its fitted range
    provenance: Mapping[str, str]  # seed, seeds, cost sources, price rows, versions, hash of the configuration
    exit_code: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)  # plain data for the JSON alone

    def as_dict(self) -> dict[str, Any]:
        """Plain data; equal answers give equal dicts."""
        return {"schema": SCHEMA, "kind": "answer", **asdict(self)}


def weakest(bases: Sequence[Basis]) -> Basis:
    """The basis that a figure may claim when it rests on all of these."""
    order: tuple[Basis, ...] = ("measured", "derived", "roofline")
    return max(bases, key=order.index, default="derived")
