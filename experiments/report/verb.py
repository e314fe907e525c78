"""The verb `report`: finished runs as one HTML file."""

import sys
from pathlib import Path

from experiments.report.page import page
from experiments.report.reading import read_answer
from experiments.schema_results import Report
from lobra.errors import BadInput
from lobra.files import write_atomically

NAME = "report.html"


def report(asked: Report) -> int:
    """Write `report.html` into `run_dir`, or beside the first run's summary; nothing else is touched."""
    if not asked.runs:
        raise BadInput(
            "runs: no run is given; name the directories of finished runs, as in lobra report RUN run_dir=OUT"
        )
    text = page([read_answer(Path(run)) for run in asked.runs])
    path = Path(asked.run_dir or asked.runs[0]) / NAME
    try:
        write_atomically(path, text)
    except OSError as error:
        raise BadInput(
            f"run_dir {path.parent}: cannot be written ({error.strerror}); choose another directory"
        ) from None
    sys.stdout.write(f"wrote {path} ({len(text.encode()) / 1e6:.1f} MB, opens without a network)\n")
    return 0
