"""From measured collectives to curves: `python -m costmodel.collectives TABLES --output FILE`.

TABLES is a folder with tables of NCCL's collectives inside a node (kind, GPUs, elements of two bytes, milliseconds) and
of all-reduces and point-to-point messages between nodes (bytes, milliseconds a rank). Every (hardware, kind, members)
gets a curve with knots at every fourth power of two from 1 KiB to 256 MiB, of least relative squared error and never
falling, and a line from 1 MiB on. The errors told are of sizes left out one at a time.

Where every rank has a time of its own the least one counts: the others waited for the last to arrive.
"""

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from costmodel.knots import Curve, fit_curve
from costmodel.messages import FILE, Kind, Line
from costmodel.profile import Profile
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.files import write_atomically

KNOTS = tuple(4.0**power for power in range(5, 15))  # bytes
LARGE = 2.0**20  # bytes from which the line is fitted: what layers of billions of weights send
ELEMENT = 2  # bytes, of half precision
THINNED = 64  # points of a curve whose table has many sizes, evenly spaced in the logarithm
NCCL, NETWORK = "aiconfigurator/nccl_half.csv", "vidur/network"
NAMES: Mapping[str, Kind] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
# hardware of the tables: GPUs of the named clusters that it stands for, NCCL's version, folder of the network's tables
HARDWARE = {
    "a100_sxm": (("A100-40GB", "A100-80GB"), 300, "NVIDIA A100-SXM4-80GB", "2.27.3", "a100_dgx"),
    "h100_sxm": (("H100-80GB",), 450, "NVIDIA H100 80GB HBM3", "2.29.2", "h100_dgx"),
    "h200_sxm": (("H200",), 450, "NVIDIA H200", "2.29.2", None),
}
SOURCE = (
    "inside a node, collectives: kernel tables of aiconfigurator-core 0.12.0 (Apache-2.0); point to point, and all "
    "between nodes: network tables of Vidur, commit 7d47513 (MIT), whose network nobody names"
)


@dataclass(frozen=True, slots=True)
class Timed:
    """One kind of message among so many GPUs, columns of [n], ascending in bytes."""

    kind: Kind
    members: int
    place: str  # inside or across
    size: Array  # float64, bytes
    seconds: Array  # float64

    @property
    def profile(self) -> Profile:
        """The same for the fit of curves, which see bytes as tokens."""
        return Profile(self.members, self.size, self.size, np.zeros_like(self.size), self.seconds)


def fit_messages(timed: Timed) -> tuple[Curve, Line]:
    """The curve and the line."""
    large = timed.size >= LARGE
    columns = np.stack([np.ones(int(large.sum())), timed.size[large]], axis=1) / timed.seconds[large, None]
    scale = columns.max(axis=0)
    start, byte = nnls(columns / scale, np.ones(len(columns)))[0] / scale
    return fit_curve(timed.profile, KNOTS), Line(float(start), float(byte))


def left_out_errors(timed: Timed) -> tuple[Array, Array]:
    """Relative errors, signed, of sizes predicted from the others: by the curve [n], by the line of the LARGE ones."""
    curve, line = [], []
    for place in range(len(timed.size)):
        kept = np.arange(len(timed.size)) != place
        rest = Timed(timed.kind, timed.members, timed.place, timed.size[kept], timed.seconds[kept])
        fitted, linear = fit_messages(rest)
        size, seconds = float(timed.size[place]), float(timed.seconds[place])
        curve.append(fitted.seconds(0, 0, size, 0) / seconds - 1)
        if size >= LARGE:
            line.append((linear.start + linear.byte * size) / seconds - 1)
    return np.array(curve), np.array(line)


def read_tables(folder: Path, hardware: str) -> list[Timed]:
    """All messages of one hardware; FileNotFoundError where a table is absent."""
    version, network = HARDWARE[hardware][3], HARDWARE[hardware][4]
    chosen: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in _rows(folder / NCCL):
        if row["hw"] == hardware and row["nccl_dir"] == version:
            point = float(row["message_size"]) * ELEMENT, float(row["latency_ms"]) * 1e-3
            chosen.setdefault((row["op_name"], int(row["num_gpus"])), []).append(point)
    if not chosen:
        raise BadInput(f"table {folder / NCCL}: it has no rows of {hardware} with NCCL {version}")
    found = [_timed(NAMES[name], members, "inside", points) for (name, members), points in chosen.items()]
    if network is None:
        return found
    return [*found, *_network(folder / NETWORK / network)]


def _network(folder: Path) -> list[Timed]:
    """Point-to-point messages of both places, and all-reduces between nodes where the table has them."""
    found = []
    for name in ("send_recv", "all_reduce"):
        groups: dict[tuple[int, str], dict[float, float]] = {}
        path = folder / f"{name}.csv"
        for row in _rows(path if path.exists() else path.with_suffix(".csv.gz")):
            members = int(row["num_workers"])
            place = "across" if int(row["devices_per_node"]) < members else "inside"
            size, seconds = float(row["size"]), float(row[f"time_stats.{name}.median"]) * 1e-3
            times = groups.setdefault((members, place), {})
            times[size] = min(seconds, times.get(size, seconds))
        kind: Kind = "all_reduce" if name == "all_reduce" else "point_to_point"
        for (members, place), times in groups.items():
            if kind == "point_to_point" or place == "across":  # inside a node NCCL's own tables go further
                found.append(_timed(kind, members, place, _thinned(sorted(times.items()))))
    return found


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points whose sizes are about evenly spaced in the logarithm, first and last among them."""
    sizes = np.log2([size for size, _ in points])
    wanted = np.searchsorted(sizes, np.linspace(sizes[0], sizes[-1], THINNED))
    return [points[place] for place in sorted({*map(int, wanted)})]


def _timed(kind: Kind, members: int, place: str, points: Iterable[tuple[float, float]]) -> Timed:
    size, seconds = np.array(sorted(points), dtype=np.float64).T
    if not (np.all(seconds > 0) and np.all(size > 0)):
        raise BadInput(f"collectives: {kind} of {members} holds a size or a time that is not above 0")
    return Timed(kind, members, place, size, seconds)


def _rows(path: Path) -> list[dict[str, str]]:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    return list(csv.DictReader(text.splitlines()))


def describe(timed: Timed) -> dict[str, Any]:
    """One curve as it stands in the source file."""
    curve, line = fit_messages(timed)
    errors, line_errors = (np.abs(each) for each in left_out_errors(timed))
    return {
        "kind": timed.kind,
        "members": timed.members,
        "place": timed.place,
        "points": len(timed.size),
        "bytes": [int(timed.size.min()), int(timed.size.max())],
        "held_out_mean_error": round(float(errors.mean()), 4),
        "held_out_largest_error": round(float(errors.max()), 4),
        "knots": [int(knot) for knot in curve.knots],
        "height_seconds": [_short(height) for height in curve.heights],
        "byte_seconds": [_short(slope) for slope in curve.slopes],
        "line": {
            "start_seconds": _short(line.start),
            "byte_seconds": _short(line.byte),
            "from_bytes": int(LARGE),
            "held_out_mean_error": round(float(line_errors.mean()), 4),
        },
    }


def document(folder: Path) -> dict[str, Any]:
    """The content of the source file."""
    hardware = []
    for name, (gpus, bandwidth, device, version, _) in HARDWARE.items():
        rows = sorted(
            map(describe, read_tables(folder, name)), key=lambda row: (row["place"], row["kind"], row["members"])
        )
        hardware.append(
            {
                "gpus": list(gpus),
                "link": {"gigabytes_per_second": bandwidth, "latency_microseconds": 5},
                "device": device,
                "library": f"NCCL {version}",
                "curves": rows,
            }
        )
    made = "python -m costmodel.collectives TABLES"
    head = {
        "schema": 1,
        "kind": "collectives",
        "status": "measured",
        "made_by": made,
        "dtype": "half",
        "source": SOURCE,
    }
    return head | {"hardware": hardware}


def json_text(made: Mapping[str, Any]) -> str:
    """A source file as JSON text, a curve a line."""
    hardware = []
    for entry in made["hardware"]:
        curves = ",\n   ".join(json.dumps(curve) for curve in entry["curves"])
        about = json.dumps({key: value for key, value in entry.items() if key != "curves"})
        hardware.append(f'{about[:-1]}, "curves": [\n   {curves}\n  ]}}')
    about = json.dumps({key: value for key, value in made.items() if key != "hardware"})
    return f'{about[:-1]}, "hardware": [\n  ' + ",\n  ".join(hardware) + "\n]}\n"


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit all tables and write the source file; exit code 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m costmodel.collectives", description="Fit measured collectives.")
    parser.add_argument("tables", type=Path, help=f"folder with {NCCL} and {NETWORK}")
    parser.add_argument("--output", type=Path, default=FILE, help="JSON to write")
    options = parser.parse_args(arguments)
    try:
        made = document(options.tables)
        write_atomically(options.output, json_text(made))
    except (BadInput, FileNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{options.output}: {sum(len(entry['curves']) for entry in made['hardware'])} curves\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
