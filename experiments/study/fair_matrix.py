"""The fair matrix: what both sides may do, and the settings in which they do it.

A cell gives both sides the same options. Options are nested: full recomputation may leave layers alone, partial may
also recompute all of them, context parallelism and sharded weights may be left unused; so what was found with fewer
options is a candidate wherever there are more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from experiments.study.point import Options as Given
from experiments.study.point import Point, Work

RECOMPUTE = ("none", "full", "some")  # of a stage's layers: none, or all, or also quarters
BATCHINGS: dict[str, tuple[str, ...]] = {
    "padded 7": ("policy/batching=padded",),
    "padded 16": ("policy/batching=padded_16",),
    "dynamic 16/16": ("policy/batching=dynamic",),
    "dynamic 64/64": ("policy/batching=dynamic", "policy.batching.number=64", "policy.batching.step=64"),
    "packed": ("policy/batching=packed",),
}
LOBRA, PACKED = "dynamic 16/16", "packed"
ADAPTER_COSTS = (0, 1, 3)  # times the cost per adapter run
MODELS = {"7b": "7B, 16 GPUs", "32b": "32B, 64 GPUs", "70b": "70B, 64 GPUs"}
TURNS = ("7b", "70b", "32b")  # in which they are played: the ends first
ROUNDED, EXACT = "rounded", "un-rounded"
MEMORIES = {ROUNDED: "cost.rounding=power_of_two", EXACT: "cost.rounding=multiple"}
SHARDED = 4  # equal replicas that may share their frozen weights, at most
GROUPS = 64  # equal replicas that may share micro-batches, at most


@dataclass(frozen=True, slots=True, order=True)
class Options:
    """What a plan may use, or what it does use."""

    recompute: str = "none"
    fsdp: bool = False
    cp: bool = False

    def allows(self, used: "Options") -> bool:
        """Whether these options cover what is used."""
        enough = RECOMPUTE.index(used.recompute) <= RECOMPUTE.index(self.recompute)
        return enough and self.fsdp >= used.fsdp and self.cp >= used.cp


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One fair comparison."""

    model: str
    memory: str
    batching: str
    options: Options


def cells(models: tuple[str, ...], memories: tuple[str, ...], batchings: tuple[str, ...]) -> Iterator[Cell]:
    """Every cell of these."""
    for model, memory, batching in product(models, memories, batchings):
        for recompute, cp, fsdp in product(RECOMPUTE, (False, True), (False, True)):
            yield Cell(model, memory, batching, Options(recompute, fsdp, cp))


def searched(recompute: tuple[str, ...], sharded: int) -> tuple[Options, ...]:
    """The sets of options that are searched apart, those with most first."""
    levels = sorted(recompute, key=RECOMPUTE.index, reverse=True)
    return tuple(Options(level, fsdp) for level in levels for fsdp in ((True, False) if sharded > 1 else (False,)))


def matrix_points(sweep: str, work: Work, given: Given) -> tuple[Point, ...]:
    """A point a model, memory table and use of context parallelism."""
    if sweep == "smoke":
        return (_small(work, given, cp=False), _small(work, given, cp=True))
    return tuple(
        Point(
            f"{model}_{'cp' if cp else 'alone'}_{'exact' if memory == EXACT else memory}",
            (f"experiment=paper_{model}", "steps=8", *_memory(model, memory)),
            _policies(tuple(BATCHINGS), cp=cp),
            work,
            {**given, "model": model, "memory": memory, "cp": cp, "recompute": RECOMPUTE, "sharded": SHARDED},
        )
        for model in TURNS
        for memory in MEMORIES
        for cp in (False, True)
    )


def _small(work: Work, given: Given, *, cp: bool) -> Point:
    """The quick sweep's: two batchings, few options, eight GPUs."""
    options = {"model": "small", "memory": ROUNDED, "cp": cp, "recompute": ("none", "full"), "sharded": 1}
    lighter = {"planning": 2, "plays": 2, "draws": 2}
    return Point(
        f"small_{'cp' if cp else 'alone'}",
        ("experiment=smoke", "workload.batch_size=8", "steps=2", *_memory("7b", ROUNDED)),
        _policies(("padded 7", LOBRA, PACKED) if not cp else (PACKED,), cp=cp),
        work,
        {**given, **options, **lighter},
    )


def _memory(model: str, memory: str) -> tuple[str, ...]:
    """7B has the paper's table; of the others nobody published one, so the counted tokens are rounded as it was."""
    if memory == ROUNDED and model == "7b":
        return ("cost.memory=table",)
    return ("cost.memory=analytic", MEMORIES[memory])


def _policies(batchings: tuple[str, ...], *, cp: bool) -> dict[str, tuple[str, ...]]:
    """Batching and dispatch of each; both sides get the same."""
    return {
        name: ("policy=task_fused", *BATCHINGS[name], f"policy/dispatch={_dispatch(name, cp=cp)}") for name in batchings
    }


def _dispatch(batching: str, *, cp: bool) -> str:
    if cp:
        return "flexible"
    return "balanced_packed" if batching == PACKED else "balanced"
