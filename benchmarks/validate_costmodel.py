"""How far the cost model can be trusted: its predictions beside public measurements that they were not fitted to.

A row a source of evidence: mean relative error, its median and 95th percentile, the worst bucket, and the mean in three
ranges of tokens a micro-batch (N < 512, 512-4k, >= 4k). Every row says what was fitted and what was not.

    python benchmarks/validate_costmodel.py --reference-data FOLDER --json FILE

writes the rows, and beside FILE the points of every row (FILE's name with .points.csv) for `lobra figure fidelity`.
`--validated FILE` adds two rows of this machine from what `validate_machine.py --json FILE` found; `--validated FOLDER`
one from what `lobra validate` left in the folder.
Exit code 1 if a bar is missed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fidelity import (
    collectives,
    composites,
    coverage,
    efficiencies,
    h100,
    lobra_layers,
    lobra_steps,
    machine,
    sailor,
    vtrain,
)
from fidelity.report import show, write
from fidelity.rows import Row

SOURCES: dict[str, Callable[[Path], list[Row]]] = {
    "LobRA's layer profile": lobra_layers.rows,
    "LobRA's tables 3 and 9": lobra_steps.rows,
    "the paper's recipe": composites.recipe,
    "A100 layer composites": composites.rows,
    "vTrain": vtrain.rows,
    "NeMo and LoRAFusion on H100": h100.rows,
    "rooflines": efficiencies.rows,
    "Sailor": sailor.rows,
    "NCCL's all-reduce": collectives.rows,
}


def evidence(reference_data: Path, validated: Sequence[Path] = ()) -> tuple[list[Row], list[str]]:
    """The rows of all sources and of runs that `lobra validate` judged, and the sources whose tables are absent."""
    found: list[Row] = []
    absent = []
    asked = [(name, source, reference_data) for name, source in SOURCES.items()]
    for name, source, folder in (*asked, *((str(folder), machine.rows, folder) for folder in validated)):
        try:
            found += source(folder)
        except FileNotFoundError as error:
            absent.append(f"{name}: {error.filename} is absent")
    if not validated:
        absent.append("this machine: no --validated FILE was given; `validate_machine.py` makes one")
    return [*found, *coverage.rows(found)], absent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference-data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--validated",
        type=Path,
        action="append",
        default=[],
        help="file of validate_machine.py, or folder of `lobra validate`",
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows, skipped = evidence(options.reference_data, options.validated)
    show(rows)
    for line in skipped:
        print(f"skipped: {line}")
    if options.json is not None:
        write(rows, options.json, skipped)
        print(f"wrote {options.json} and {options.json.with_suffix('.points.csv')}")
    return int(any(row.holds is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
