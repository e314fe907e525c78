"""NCCL's collectives inside a node of A100, H100 and H200, 2, 4 and 8 members, 512 bytes to 512 MiB; and between nodes.

The cost model prices messages by curves with knots where the hardware was measured (`costmodel.messages`), and by a
formula of latency and bandwidth (`costmodel.communication`) elsewhere. Here is the formula beside the curves, each size
predicted by a curve that was fitted to the other sizes, and beside the lines that planners have from 1 MiB on.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from costmodel.collectives import HARDWARE, LARGE, Timed, left_out_errors, read_tables
from costmodel.hardware import cluster_spec
from costmodel.messages import Messages
from fidelity.rows import Held, Row, joined, row
from lobra.batch import Array

FOLDER = "gpu_profiles"
CLUSTERS = {"a100_sxm": "a100_80gb", "h100_sxm": "h100_80gb", "h200_sxm": "h200"}
FORMULA = "nothing to these: data-sheet bandwidth times 0.77, assumed latencies"
CURVE = "a curve a (hardware, kind, members) to all other sizes"
LINE = "a line a (hardware, kind, members) to all other sizes from 1 MiB on"
Tables = Sequence[tuple[str, Timed]]


def rows(reference_data: Path) -> list[Row]:
    """All-reduces inside a node, the other messages inside it, and those between nodes."""
    tables = [(name, timed) for name in HARDWARE for timed in read_tables(reference_data / FOLDER, name)]
    sums = [each for each in tables if each[1].place == "inside" and each[1].kind == "all_reduce"]
    others = [each for each in tables if each[1].place == "inside" and each[1].kind != "all_reduce"]
    across = [each for each in tables if each[1].place == "across"]
    return [
        *compared("NCCL all-reduce", sums, "the ring formula as it stands"),
        *compared("other messages inside a node", others, "the formula as it stands"),
        *compared("messages between nodes, one unnamed network", across, "the formula as it stands"),
    ]


def compared(what: str, tables: Tables, formula: str) -> list[Row]:
    """The formula, the curves and the lines."""
    by_formula, by_curve = _every(tables, _formula_errors), _every(tables, lambda _, timed: left_out_errors(timed)[0])
    large = np.concatenate([timed.size >= LARGE for _, timed in tables])
    parts = [(name, _part(timed)) for name, timed in tables]
    by_line = _every(parts, lambda _, timed: left_out_errors(timed)[1])
    return [
        row(f"{what}, {formula}", by_formula, None, FORMULA, beside=_from_large(by_formula, large)),
        row(
            f"{what}, a curve with knots, one size left out", by_curve, None, CURVE, beside=_from_large(by_curve, large)
        ),
        row(f"{what} from 1 MiB on, planners' line, one size left out", by_line, None, LINE),
    ]


def _part(timed: Timed) -> Timed:
    """Its large messages alone."""
    large = timed.size >= LARGE
    return Timed(timed.kind, timed.members, timed.place, timed.size[large], timed.seconds[large])


def _from_large(held: Held, large: Array) -> dict[str, float]:
    return {"from_1_mib": float(np.abs(held.errors[large]).mean())}


def _every(tables: Tables, errors: Callable[[str, Timed], Array]) -> Held:
    return joined(
        [
            Held(timed.seconds * (1 + errors(name, timed)), timed.seconds, (_group(name, timed),) * len(timed.size))
            for name, timed in tables
        ]
    )


def _group(name: str, timed: Timed) -> str:
    return f"{name}, {timed.kind.replace('_', '-')}, {timed.members} members"


def _formula_errors(name: str, timed: Timed) -> Array:
    cluster, formula = cluster_spec(CLUSTERS[name], 2, 8), Messages()
    crosses = timed.place == "across"
    told = [formula.seconds(timed.kind, cluster, size, timed.members, crosses=crosses) for size in timed.size]
    return np.array(told) / timed.seconds - 1
