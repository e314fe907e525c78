"""Who does which verb: everything heavy is imported here, once the configuration is known to be sound."""

from functools import partial
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from experiments import planning, verbs
from experiments.doctor import doctor
from experiments.drawing import figure
from experiments.export import export
from experiments.fitting import fit
from experiments.gain import gain
from experiments.job import Work, evidence, in_folder
from experiments.preparing import prepare
from experiments.profile import profile
from experiments.report.verb import report
from experiments.schema import Gain, Profile, Study, Whatif
from experiments.schema_executor import Fit, Prepare, Validate
from experiments.schema_results import Export, Figure, Report
from experiments.study.verb import study
from experiments.validate import validate
from experiments.whatif.verb import files_read, whatif


def worker(verb: str) -> Work:
    """Who does a verb that plans or plays."""
    return {"plan": planning.plan, "run": verbs.run, "compare": verbs.compare}[verb]


def act(verb: str, config: DictConfig) -> int:
    """Do a verb that composes no policy; 0 when done."""
    plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    match asked := OmegaConf.to_object(config):
        case Figure():
            return figure(asked)
        case Export():
            return export(asked)
        case Report():
            return report(asked)
        case Gain(run_dir=None):
            return gain(asked, None)
        case Gain():
            return in_folder(verb, plain, partial(gain, asked))
        case Study():
            return in_folder(verb, plain, partial(study, asked))
        case Whatif():
            return in_folder(verb, plain, partial(whatif, asked), evidence(asked.workload, *files_read(asked)))
        case Prepare():
            return in_folder(verb, plain, partial(prepare, asked))
        case Profile():
            return in_folder(verb, plain, partial(profile, asked))
        case Fit():
            return in_folder(verb, plain, partial(fit, asked))
        case Validate():
            return in_folder(verb, plain, partial(validate, asked))
    return doctor()
