"""Prices a planner may add up, and what a dispatcher decides."""

from dataclasses import dataclass

from lobra.batch import Array, Bucket
from lobra.plan import MicroBatch


@dataclass(frozen=True, slots=True)
class PackRates:
    """Stage seconds of a pack: fixed + run * runs + token * tokens + square * squares, at least the floor."""

    fixed: float
    run: float  # per adapter run
    token: float
    square: float


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Stage seconds, forward plus backward of the slowest stage, of one configuration.

    A padded micro-batch of b rows of widths[j] takes max(floor, fixed[j] + row[j] * b).
    """

    floor: float
    fixed: Array  # float64 [J], per micro-batch
    row: Array  # float64 [J], per row
    pack: PackRates | None  # None: this form does not price packs


@dataclass(frozen=True, slots=True, eq=False)
class Loads:
    """What counts of sequences cost on one replica (or one group of replicas that computes together).

    n sequences of bucket j form m = ceil(n / capacity[j]) micro-batches of even size; one of b sequences takes
    max(floor, fixed[j] + each[j] * b) stage seconds. The replica takes their sum plus (stages - 1) times the longest
    (or times `longest`, where the micro-batches are not known from the counts).
    """

    capacity: Array  # int64 [J], sequences of the bucket that a micro-batch holds; 0: they do not fit
    fixed: Array  # float64 [J]
    each: Array  # float64 [J]
    floor: float
    stages: int
    longest: float | None = None  # packed: stage seconds of a full micro-batch
    least: Array | None = None  # float64 [J], packed: what a sequence adds at the least, `each` being an estimate


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Who computes what in a step."""

    shares: tuple[tuple[Bucket, ...], ...]  # one a replica: its part of each bucket, empty parts left out
    shared: tuple[MicroBatch, ...] = ()  # with a group; costliest first; they run before the shares


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the numbers of a cost model rest on."""

    status: str  # measured, derived or roofline
    source: str
    notes: tuple[str, ...] = ()  # what a reader must know: extrapolated, another tenant set, ...
