"""Who does which verb: a worker's module is loaded when its verb is asked for, and no other's.

A verb thus waits for what it needs (plots, solvers, the fit), not for what all verbs together need.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from experiments.job import Work, evidence, in_folder
from experiments.schema import Gain, Whatif
from experiments.schema_results import Doctor, Export, Figure, Report

WORKERS = {
    "plan": "planning:plan",
    "run": "verbs:run",
    "compare": "verbs:compare",
    "prepare": "preparing:prepare",
    "profile": "profile:profile",
    "fit": "fitting:fit",
    "validate": "validate:validate",
    "gain": "gain:gain",
    "study": "study.verb:study",
    "whatif": "whatif.verb:whatif",
    "figure": "drawing:figure",
    "report": "report.verb:report",
    "export": "export:export",
    "doctor": "doctor:doctor",
}


def loaded(place: str) -> Callable[..., Any]:
    """A function by `module:name` below `experiments`."""
    module, name = place.split(":")
    return cast(Callable[..., Any], getattr(import_module(f"experiments.{module}"), name))


def worker(verb: str) -> Work:
    """Who does a verb that plans or plays."""
    return loaded(WORKERS[verb])


def act(verb: str, config: DictConfig) -> int:
    """Do a verb that composes no policy; 0 when done."""
    plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    work, asked = loaded(WORKERS[verb]), OmegaConf.to_object(config)
    match asked:
        case Doctor():
            return cast(int, work())
        case Figure() | Export() | Report():
            return cast(int, work(asked))
        case Gain(run_dir=None):
            return cast(int, work(asked, None))
        case Whatif():
            read = loaded("whatif.verb:files_read")(asked)
            return in_folder(verb, plain, partial(work, asked), evidence(asked.workload, *read))
    return in_folder(verb, plain, partial(work, asked))
