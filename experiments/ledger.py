"""The table of a sweep: a row a job, failed ones and duplicates included."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.rundir import SCHEMA, pretty
from lobra.files import write_atomically

FIXED = ("number", "status", "exit_code", "point", "duplicate_of", "objective", "seconds", "reason")
GOOD = ("done", "skipped")


def write_ledger(start: Path, verb: str, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """`sweep.json` and `sweep.csv` of one start of a sweep; what the former holds."""
    rows = _with_duplicates(records)
    good = [row for row in rows if row["status"] in GOOD]
    objectives = [row["objective"] for row in good if row["objective"] is not None]
    ledger = {
        "schema": SCHEMA,
        "verb": verb,
        "ok": len(good),
        "total": len(rows),
        "mean_objective": fmean(objectives) if objectives else None,
        "duplicates": sum(row["duplicate_of"] is not None for row in rows),
        "rows": rows,
    }
    write_atomically(start / "sweep.json", pretty(ledger))
    write_atomically(start / "sweep.csv", _csv(rows))
    return ledger


def exit_code(rows: Sequence[dict[str, Any]]) -> int:
    """0 if every point is done, 4 if some are; where all failed, the code of the first."""
    failed = [row for row in rows if row["status"] not in GOOD]
    if not failed:
        return 0
    if len(failed) < len(rows) or any(row["status"] == "partial" for row in failed):
        return 4
    return next((row["exit_code"] for row in failed if row["exit_code"]), 6)


def _with_duplicates(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    first: dict[str, int] = {}
    rows = []
    for record in records:
        point = record.get("point")
        twin = first.setdefault(point, record["number"]) if point is not None else record["number"]
        rows.append(record | {"duplicate_of": twin if twin != record["number"] else None})
    return rows


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    overrides = list(dict.fromkeys(key for row in rows for key in row["overrides"]))
    figures = list(dict.fromkeys(key for row in rows for key in row.get("figures", {})))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*FIXED, *overrides, *figures])
    for row in rows:
        fixed = [row.get(column) for column in FIXED]
        chosen = [row["overrides"].get(key) for key in overrides]
        writer.writerow(
            [_cell(value) for value in (*fixed, *chosen, *(row.get("figures", {}).get(k) for k in figures))]
        )
    return file.getvalue()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula is marked as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
