"""`study.json`: the numbers of a study, deterministic to the byte; `wall.json` beside it: what the clock said."""

import csv
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.rundir import SCHEMA, canonical, pretty, read_json
from experiments.study.engine import WALL, Ended
from experiments.study.point import Results, Rows
from lobra.errors import BadInput
from lobra.files import write_atomically

STUDY = "study.json"


def write_study(folder: Path, name: str, sweep: str, seed: int, ended: Mapping[str, Ended]) -> str:
    """Both files; the hash of the numbers, which equal numbers share."""
    points = {
        point: {"result": each.result}
        if each.result is not None
        else {"failed": each.reason, "exit_code": each.exit_code}
        for point, each in ended.items()
    }
    numbers = hashlib.sha256(canonical(points).encode()).hexdigest()[:16]
    body = {"schema": SCHEMA, "study": name, "sweep": sweep, "seed": seed, "numbers": numbers, "points": points}
    walls = {point: each.wall for point, each in ended.items() if each.wall}
    write_atomically(folder / WALL, pretty({"schema": SCHEMA, "study": name, "points": walls}))
    write_atomically(folder / STUDY, pretty(body))
    return numbers


def read_study(folder: Path, name: str) -> Results:
    """The results of a finished study by point, each with its `wall` where it is known; BadInput for another study."""
    path = folder / STUDY if folder.is_dir() else folder
    body = read_json(path)
    if body.get("study") != name or not isinstance(body.get("points"), dict):
        raise BadInput(
            f"{path}: $.study: expected {name!r}, got {body.get('study')!r}; give the directory of that study"
        )
    beside = path.with_name(WALL)
    walls: dict[str, Any] = read_json(beside)["points"] if beside.is_file() else {}
    return {
        point: each["result"] | ({"wall": walls[point]} if point in walls else {})
        for point, each in body["points"].items()
        if "result" in each
    }


def csv_text(rows: Rows) -> str:
    """A table as CSV; columns are the keys of its first row."""
    file = io.StringIO()
    columns = list(rows[0]) if rows else []
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def cells(rows: Rows) -> tuple[list[str], list[list[str]]]:
    """Columns and cells of a table for people."""
    columns = list(rows[0]) if rows else []
    return columns, [[_cell(row[column]) for column in columns] for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
