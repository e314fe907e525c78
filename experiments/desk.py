"""Who does which verb: everything heavy is imported here, once the configuration is known to be sound."""

from typing import cast

from omegaconf import DictConfig, OmegaConf

from experiments import schema, verbs
from experiments.doctor import doctor
from experiments.export import export
from experiments.figures import figure
from experiments.job import Work


def worker(verb: str) -> Work:
    """Who does a verb that plans or plays."""
    return {"plan": verbs.plan, "run": verbs.run, "compare": verbs.compare}[verb]


def act(verb: str, config: DictConfig) -> int:
    """Do a verb that reads results, or none; 0 when done."""
    OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # says which value is missing
    asked = OmegaConf.to_object(config)
    if verb == "figure":
        return figure(cast(schema.Figure, asked))
    if verb == "export":
        return export(cast(schema.Export, asked))
    return doctor()
