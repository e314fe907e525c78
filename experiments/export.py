"""`lobra export`: traces as Chrome/Perfetto JSON, and as Parquet for data frames."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.chrome import chrome_json
from experiments.schema_results import Export
from experiments.traces import group_folders, plan_of, reports_of
from lobra.errors import BadInput
from lobra.files import write_atomically

FORMATS = ("chrome", "parquet")
STEPS = pa.schema(
    [
        ("group", pa.int32()),
        ("step", pa.int64()),
        ("seconds", pa.float64()),
        ("gpus", pa.int64()),
        ("gpu_seconds", pa.float64()),
        ("busy_gpu_seconds", pa.float64()),
        ("tokens", pa.int64()),
        ("useful_tokens", pa.int64()),
        ("wait_seconds", pa.float64()),
        ("peak_gib", pa.float64()),
    ]
)
SPANS = pa.schema(
    [
        ("group", pa.int32()),
        ("step", pa.int64()),
        ("replica", pa.int32()),
        ("stage", pa.int32()),
        ("microbatch", pa.int32()),
        ("kind", pa.string()),
        ("start_seconds", pa.float64()),
        ("end_seconds", pa.float64()),
    ]
)


def export(asked: Export) -> int:
    """Write the files beside the run or into `output`, and name them."""
    if asked.format not in FORMATS:
        raise BadInput(f"format is {asked.format!r}; choose from {', '.join(FORMATS)}")
    groups = group_folders(Path(asked.run))
    output = Path(asked.output) if asked.output else Path(asked.run)
    if asked.format == "chrome":
        written = []
        for group in groups:
            written.append(output / f"{group.name}.perfetto.json")
            write_atomically(written[-1], chrome_trace(group, asked.first, asked.steps))
    else:
        written = [output / "steps.parquet", output / "spans.parquet"]
        tables = _tables(groups, asked.first, asked.steps)
        for path, table in zip(written, tables, strict=True):
            write_atomically(path, _parquet(table))
    sys.stdout.write("".join(f"wrote {path}\n" for path in written))
    return 0


def chrome_trace(group: Path, first: int = 0, steps: int | None = None) -> str:
    """The trace of one group."""
    return chrome_json(plan_of(group), reports_of(group, first, steps))


def _tables(groups: list[Path], first: int, steps: int | None) -> tuple[pa.Table, pa.Table]:
    """One row a step, and one row a span."""
    reports: dict[str, list[Any]] = {name: [] for name in STEPS.names}
    spans: dict[str, list[Any]] = {name: [] for name in SPANS.names}
    for group in groups:
        for report in reports_of(group, first, steps):
            reports["group"].append(int(group.name))
            for name in STEPS.names[1:]:
                reports[name].append(getattr(report, name))
            for span in report.spans:
                for name, value in zip(SPANS.names, (int(group.name), report.step, *span), strict=True):
                    spans[name].append(value)
    return pa.table(reports, schema=STEPS), pa.table(spans, schema=SPANS)


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())
