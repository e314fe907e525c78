"""From a point to the job of a comparison."""

from collections.abc import Mapping
from typing import Any, cast

from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from experiments import schema
from experiments.composing import one_policy, policy_configs
from experiments.job import Job, described
from experiments.study.point import Point


def composed(point: Point, seed: int) -> Job:
    """The job of a point; Hydra's errors or BadInput where its overrides are wrong."""
    if not GlobalHydra.instance().is_initialized():
        with initialize_config_module("conf", version_base="1.3"):
            return composed(point, seed)
    overrides = [f"seed={seed + point.replicate}", "workers=1", *point.overrides]
    config = compose("compare", overrides=overrides)
    plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    typed = cast(schema.Compare, OmegaConf.to_object(config))
    if isinstance(point.policies, Mapping):
        policies = {name: one_policy(list(more)) for name, more in point.policies.items()}
    else:
        names = point.policies or tuple(typed.policies or ())
        policies = policy_configs(names, typed.plans) if names else {}
    return described("compare", typed, plain, policies)
