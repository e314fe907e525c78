"""NCCL's all-reduce inside a node of A100, H100 and H200, 2, 4 and 8 members, 512 bytes to 1 GiB.

The cost model prices messages by a ring's latency and bandwidth (`costmodel.communication`); rooflines rest on it.
Beside it a curve with knots, one size left out: what an interpolated table would give.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from costmodel.communication import all_reduce_seconds
from costmodel.hardware import cluster_spec
from costmodel.knots import fit_curve
from costmodel.profile import Profile
from fidelity.rows import Held, Row, held_out, joined, leave_out, row
from fidelity.tables import column, read_rows
from lobra.batch import Array

FILE = "gpu_profiles/derived/allreduce.csv"
CLUSTERS = {"a100_sxm": "a100_80gb", "h100_sxm": "h100_80gb", "h200_sxm": "h200"}
KNOTS = tuple(4.0**power for power in range(5, 15))  # bytes
LARGE = 2**20  # bytes from which bandwidth counts more than latency


def rows(reference_data: Path) -> list[Row]:
    """The formula as it stands, and a table in its place."""
    table = read_rows(reference_data / FILE)
    formula, curve = _every(table, _by_formula), _every(table, _by_curve)
    large = np.concatenate([size >= LARGE for _, _, size, _ in _groups(table)])
    return [
        row(
            "NCCL all-reduce, the ring formula as it stands",
            formula,
            None,
            "nothing to these: data-sheet bandwidth times 0.77, assumed latencies",
            beside={"from_1_mib": float(np.abs(formula.errors[large]).mean())},
        ),
        row(
            "NCCL all-reduce, a curve with knots, one size left out",
            curve,
            None,
            "a curve a (hardware, members) to all other sizes",
            beside={"from_1_mib": float(np.abs(curve.errors[large]).mean())},
        ),
    ]


def _every(table: list[dict[str, str]], predict: Callable[[str, int, Array, Array], Array]) -> Held:
    return joined(
        [
            Held(predict(hardware, members, size, seconds), seconds, (f"{hardware}, {members} members",) * len(size))
            for hardware, members, size, seconds in _groups(table)
        ]
    )


def _groups(table: list[dict[str, str]]) -> list[tuple[str, int, Array, Array]]:
    found = []
    for hardware in CLUSTERS:
        own = [each for each in table if each["hw"] == hardware]
        members, size, seconds = column(own, "num_gpus"), column(own, "bytes"), column(own, "ms") * 1e-3
        for count in np.unique(members):
            here = members == count
            found.append((hardware, int(count), size[here], seconds[here]))
    return found


def _by_formula(hardware: str, members: int, size: Array, _: Array) -> Array:
    link = cluster_spec(CLUSTERS[hardware], 1, 8).intra_node
    return np.array([all_reduce_seconds(link, each, members) for each in size])


def _by_curve(_: str, members: int, size: Array, seconds: Array) -> Array:
    whole = Profile(members, size, size, np.zeros_like(size), seconds)

    def predict(mask: Array) -> Array:
        return fit_curve(whole.part(~mask), KNOTS).of(whole.part(mask))

    return held_out(len(size), leave_out(size.tolist()), predict)
