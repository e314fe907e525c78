"""Sweeps that can be interrupted: every point in a directory named by its configuration, finished ones skipped.

Hydra gives the points and runs them; what it lacks is here. ROOT/HASH holds a point, its last file DONE says that it
is whole. ROOT/sweeps/NNNN is one start of a sweep: a record a job, and the table of them. A point that fails is
recorded with its reason and does not stop the others, unless `fail_fast` is set.
"""

import json
import re
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments.failures import exit_code_of, reason
from experiments.job import DONE, Done, Job, Work, begun, job_of
from experiments.rundir import SCHEMA, locked, pretty, read_json
from lobra.errors import BadInput
from lobra.files import write_atomically

RECORD = "job.json"
LOG = "log.txt"


@dataclass(frozen=True, slots=True)
class Place:
    """One job of one start of a sweep."""

    root: Path
    folder: Path  # ROOT/sweeps/NNNN/jobs/NUMBER
    number: int
    overrides: dict[str, str]


def new_start(root: Path) -> Path:
    """A fresh ROOT/sweeps/NNNN; starts in the same instant get different ones."""
    for number in range(10_000):
        folder = root / "sweeps" / f"{number:04d}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise BadInput(f"run_dir {root}: cannot be written ({error.strerror}); choose another directory") from None
        return folder
    raise BadInput(f"run_dir {root}: it holds 10,000 sweeps; choose another directory")


def run_point(place: Place, verb: str, config: DictConfig, work: Work) -> float:
    """Do one job unless it is done; whatever happens is in its record. Its GPU seconds, NaN where there are none."""
    started = time.perf_counter()
    record: dict[str, Any] = {"schema": SCHEMA, "number": place.number, "overrides": place.overrides}
    try:
        if config.get("fail_fast") and _failed_before(place):
            record |= {"status": "left_out", "exit_code": None, "reason": "an earlier point failed (fail_fast)"}
            return float("nan")
        job = job_of(verb, config)
        record["point"] = job.name
        done, skipped = _do(place, job, work)
        status = "skipped" if skipped else "done" if done.exit_code == 0 else "partial"
        record |= {"status": status, "exit_code": done.exit_code, "objective": done.objective, "figures": done.figures}
        record |= {"reason": done.reason} if done.reason else {}
    except Exception as error:  # noqa: BLE001 -- a sweep outlives whatever a point raises; the record keeps it
        record |= {"status": "failed", "exit_code": exit_code_of(error), "reason": reason(error)}
        _log(place, record, traceback.format_exc())
    except BaseException as error:
        record |= {"status": "interrupted", "exit_code": exit_code_of(error), "reason": type(error).__name__}
        raise
    finally:
        record["seconds"] = time.perf_counter() - started
        write_atomically(place.folder / RECORD, pretty(record))
        sys.stderr.write(_line(record) + "\n")
    objective = record.get("objective")
    return float("nan") if objective is None else float(objective)


def _do(place: Place, job: Job, work: Work) -> tuple[Done, bool]:
    folder = place.root / job.name
    with locked(folder, wait=True):
        (folder / LOG).unlink(missing_ok=True)
        if (kept := _finished(folder, job.name)) is not None:
            return kept, True
        done = begun(job, folder, work)
        if done.exit_code == 0:
            mark = {"schema": SCHEMA, "config_hash": job.name, "objective": done.objective, "figures": done.figures}
            write_atomically(folder / DONE, pretty(mark))
        return done, False


def _finished(folder: Path, name: str) -> Done | None:
    """What a finished point gave; None where it is not finished or its mark is not to be trusted."""
    if not (folder / DONE).is_file():
        return None
    try:
        mark = read_json(folder / DONE)
        read_json(folder / "summary.json")
        return Done(0, mark["objective"], dict(mark["figures"])) if mark["config_hash"] == name else None
    except (BadInput, KeyError, TypeError, ValueError):
        return None


def _failed_before(place: Place) -> bool:
    records = (read_json(path) for path in place.folder.parent.glob(f"*/{RECORD}"))
    return any(record["status"] in ("failed", "partial") for record in records)


def _log(place: Place, record: dict[str, Any], text: str) -> None:
    """The traceback, in the job's own log and beside the point's files."""
    write_atomically(place.folder / LOG, text)
    if "point" in record:
        write_atomically(place.root / record["point"] / LOG, text)


def _line(record: dict[str, Any]) -> str:
    what = " ".join(f"{key}={value}" for key, value in record["overrides"].items())
    told = {"skipped": "finished before, skipped", "done": "done", "partial": "some policies failed"}
    end = told.get(record["status"], f"{record['status']}: {record.get('reason')}")
    return f"point {record['number']} [{what}] {record.get('point', '')}: {end}"


def numbered(folders: Sequence[Path]) -> list[Path]:
    """Folders named by numbers, in their order."""
    return sorted((folder for folder in folders if re.fullmatch(r"\d+", folder.name)), key=lambda f: int(f.name))


def records_of(start: Path) -> list[dict[str, Any]]:
    """A record a job, in order; a job that left none was killed."""
    records = []
    for folder in numbered(list((start / "jobs").glob("*"))):
        if (folder / RECORD).is_file():
            records.append(json.loads((folder / RECORD).read_text(encoding="utf-8")))
        else:
            lost = {"status": "failed", "exit_code": 6, "reason": "it was killed"}
            records.append({"number": int(folder.name), "overrides": {}, **lost})
    return records
