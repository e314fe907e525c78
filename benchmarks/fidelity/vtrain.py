"""vTrain's ground truth: 1,440 iterations on one node of A100 and 109 on many, full training."""

from pathlib import Path
from statistics import median

import numpy as np

from fidelity.iterations import Columns, Parts, fit_iteration, parts_of
from fidelity.rows import Held, Row, folds, held_out, row
from fidelity.tables import column, read_rows
from lobra.batch import Array

FOLDER = "gpu_profiles/vtrain"
CLAIMS = {"single": 0.0837, "multi": 0.1473}  # vTrain's own, without having seen these iterations
FEW, DRAWS = 20, 10


def rows(reference_data: Path) -> list[Row]:
    """Five folds of both tables, and one node from 20 points."""
    folder = reference_data / FOLDER
    ring = read_ring(folder / "nccl_allreduce.csv.gz")
    single, multi = (read(folder / f"ground_truth_{name}.csv") for name in ("single", "multi"))
    one, many = parts_of(single, ring), parts_of(multi, ring)
    return [
        _folded("vTrain, 1,440 iterations on one node, 5-fold", single, one, 0.06, "single"),
        few(single, one),
        _folded("vTrain, 109 iterations on many nodes, 5-fold", multi, many, 0.085, "multi"),
        _carried(single, one, multi, many),
    ]


def _folded(label: str, table: Columns, parts: Parts, bar: float, name: str) -> Row:
    means = [five_folds(table, parts, seed).mean for seed in range(5)]
    return row(
        label,
        five_folds(table, parts),
        bar,
        f"{parts.constants} non-negative constants to four fifths; all-reduce times from vTrain's table of NCCL",
        noise="unknown" if name == "single" else "one configuration was run twice: 0.1 % apart",
        notes=(
            f"other draws of the folds: {min(means):.1%} to {max(means):.1%}",
            f"vTrain itself claims {CLAIMS[name]:.2%}, calibrated on none of these iterations",
            "which quantities have a constant was decided with this table in sight",
        ),
        beside={"vtrain_claims": CLAIMS[name]},
    )


def five_folds(table: Columns, parts: Parts, seed: int = 0) -> Held:
    """Every iteration predicted from four fifths of the others."""
    seconds = table["iteration_time_ms"] * 1e-3

    def predict(mask: Array) -> Array:
        return fit_iteration(parts, seconds, ~mask).seconds(parts)[mask]

    predicted = held_out(len(seconds), folds(len(seconds), seed), predict)
    return Held(predicted, seconds, _groups(table), table["micro_batch"] * table["sequence_length"])


def few(table: Columns, parts: Parts) -> Row:
    """All others predicted from 20 points: the median of ten draws."""
    seconds, draws = table["iteration_time_ms"] * 1e-3, []
    for seed in range(DRAWS):
        generator = np.random.default_rng(np.random.SeedSequence(seed))
        mask = np.ones(len(seconds), dtype=bool)
        mask[generator.choice(len(seconds), FEW, replace=False)] = False
        predicted = fit_iteration(parts, seconds, ~mask).seconds(parts)
        groups = tuple(np.array(_groups(table))[mask])
        tokens = (table["micro_batch"] * table["sequence_length"])[mask]
        draws.append(Held(predicted[mask], seconds[mask], groups, tokens))
    middle = median(held.mean for held in draws)
    held = min(draws, key=lambda each: abs(each.mean - middle))
    means = [each.mean for each in draws]
    return Row(
        f"vTrain, 1,440 iterations on one node, from {FEW} of them",
        middle,
        None,
        len(held.measured),
        f"{parts.constants} non-negative constants to {FEW} points; median of {DRAWS} draws",
        held,
        notes=(f"draws: {min(means):.1%} to {max(means):.1%}; the only row comparable with vTrain's own 8.37 %",),
        beside={"vtrain_claims": CLAIMS["single"]},
    )


def _carried(single: Columns, one: Parts, multi: Columns, many: Parts) -> Row:
    fitted = fit_iteration(one, single["iteration_time_ms"] * 1e-3, np.ones(len(one.rest), dtype=bool))
    held = Held(
        fitted.seconds(many),
        multi["iteration_time_ms"] * 1e-3,
        _groups(multi),
        multi["micro_batch"] * multi["sequence_length"],
    )
    return row("vTrain, many nodes from one node, unchanged", held, None, "constants to the 1,440 on one node only")


def read(path: Path) -> Columns:
    """The columns of a table of iterations."""
    table = read_rows(path)
    return {name: column(table, name) for name in table[0]}


def read_ring(path: Path) -> dict[int, tuple[Array, Array]]:
    """All-reduces of NCCL on A100: bytes and seconds by members."""
    table = [each for each in read_rows(path) if each["hw"] == "a100"]
    members, size, seconds = column(table, "num_gpus"), column(table, "bytes"), column(table, "oop_time_ns") * 1e-9
    return {count: (size[members == count], seconds[members == count]) for count in (2, 4, 8)}


def _groups(table: Columns) -> tuple[str, ...]:
    return tuple(f"tp {int(tp)}" for tp in table["tensor_parallelism"])
