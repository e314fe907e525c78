"""Hydra at the door: composes the verb's configuration, runs one job or a sweep, and hands errors back."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from experiments.arguments import is_sweep, prepare
from experiments.failures import EXPECTED, exit_code_of, reason
from experiments.job import RUNS, Work, job_of, perform
from experiments.ledger import exit_code, write_ledger
from experiments.rundir import NO_PART_OF_A_RESULT
from experiments.schema import register
from experiments.sweep import Place, new_start, records_of, run_point
from lobra.errors import BadInput

SWEEPING = ("plan", "run", "compare")


class Desk(Protocol):
    """Where the work of the verbs is done: the module `experiments.desk`, loaded when it is needed."""

    def act(self, verb: str, config: DictConfig) -> int:
        """Do a verb that has no run directory."""

    def worker(self, verb: str) -> Work:
        """Who does a verb that has one."""


def run_verb(verb: str, arguments: Sequence[str], desk: Callable[[], Desk]) -> int:
    """Run a verb; one clear line for what was expected to go wrong, anything else is raised."""
    try:
        given = prepare(verb, arguments)
        register()
        return _sweep(verb, given, desk) if is_sweep(given) else _single(verb, given, desk)
    except EXPECTED as error:
        sys.stderr.write(f"lobra: {reason(error)}\n")
        return exit_code_of(error)


def _single(verb: str, arguments: list[str], desk: Callable[[], Desk]) -> int:
    codes: list[int] = []
    errors: list[Exception] = []

    def task(config: DictConfig) -> None:
        try:
            if verb in SWEEPING:
                job = job_of(verb, config)
                codes.append(perform(job, job.folder(), desk().worker(verb)).exit_code)
            else:
                codes.append(desk().act(verb, config))
        except Exception as error:  # noqa: BLE001 -- Hydra would print it its own way; it is raised again below
            errors.append(error)

    _hydra(verb, arguments, task)
    for error in errors:
        raise error
    return codes[0] if codes else 0  # no job: --help, --cfg and the like


def _sweep(verb: str, arguments: list[str], desk: Callable[[], Desk]) -> int:
    if verb not in SWEEPING:
        raise BadInput(f"option -m: {verb} does not sweep; {', '.join(SWEEPING)} do")
    root = _root(verb, arguments)
    start = new_start(root)

    def task(config: DictConfig) -> float:
        hydra_config = HydraConfig.get()
        overrides = [text.partition("=") for text in hydra_config.overrides.task]
        place = Place(
            root,
            Path(hydra_config.runtime.output_dir),
            int(hydra_config.job.num),
            {key: value for key, _, value in overrides if key not in NO_PART_OF_A_RESULT},
        )
        return run_point(place, verb, config, desk().worker(verb))

    try:
        _hydra(verb, [*arguments, f"hydra.sweep.dir='{start}'"], task)
    finally:
        rows = _close(verb, start)
    return exit_code(rows)


def _close(verb: str, start: Path) -> list[dict[str, Any]]:
    """Write the table of a start of a sweep; one in which no point began leaves nothing behind."""
    records = records_of(start)
    if not records:
        shutil.rmtree(start)
        return []
    ledger = write_ledger(start, verb, records)
    sys.stdout.write(f"{ledger['ok']} of {ledger['total']} points done\n")
    sys.stdout.write(f"wrote {start / 'sweep.csv'}\nwrote {start / 'sweep.json'}\n")
    return list(ledger["rows"])


def _root(verb: str, arguments: Sequence[str]) -> Path:
    """The directory under which the points of a sweep lie: `run_dir`, or a default."""
    given = [argument for argument in arguments if argument.startswith("run_dir=")]
    if not given:
        return RUNS / verb
    override = OverridesParser.create().parse_override(given[-1])
    if override.is_sweep_override():
        raise BadInput("run_dir: it cannot be swept; points get their own directories below it")
    value = override.value()
    path = Path(str(value))
    if value is None:
        return RUNS / verb
    if "'" in str(path):
        raise BadInput(f"run_dir {path}: a sweep's directory cannot hold a quote; choose another name")
    return path


def _hydra(verb: str, arguments: list[str], task: Callable[[DictConfig], float | None]) -> None:
    """Let Hydra parse, compose and call; its errors come through as they are."""
    before = sys.argv
    sys.argv = [f"lobra {verb}", *arguments]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra's documented way to raise instead of printing and exiting with 1
    try:
        hydra.main(version_base="1.3", config_path="pkg://conf", config_name=verb)(task)()
    finally:
        sys.argv = before
