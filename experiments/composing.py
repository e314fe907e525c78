"""Policies by name: each composed from its own file, beside the configuration of a comparison."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import resources
from typing import cast

from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from experiments import schema
from experiments.schema_policy import Policy
from lobra.errors import BadInput

ORDER = ("task_fused", "task_sequential", "length_based", "lobra")  # families, in the order of the tables
OWN, PAPER = "own", "paper"
_PLAN = re.compile(r"[0-9,;x/rfsdp ]+")  # of these its own reader makes sense, or says what is wrong


def policy_names() -> tuple[str, ...]:
    """Every policy of `conf/policy`, families together, the baseline first."""
    files = (entry.name for entry in (resources.files("conf") / "policy").iterdir() if entry.name.endswith(".yaml"))
    return tuple(sorted((name.removesuffix(".yaml") for name in files), key=_place))


def policy_configs(names: Sequence[str], plans: str) -> dict[str, Policy]:
    """The configurations of these policies; `plans` as in `experiments.schema.World`."""
    known = policy_names()
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise BadInput(f"policies: there is no policy {name!r}; {hint}choose from {', '.join(known)}")
    if len(set(names)) != len(names):
        raise BadInput(f"policies: {list(names)} names a policy twice; name each once")
    if not names:
        raise BadInput("policies: the list is empty; name at least one, or leave it out for all")
    more = _deployment(plans)
    return {name: one_policy([f"policy={name}", *more]) for name in names}


def with_plans(policy: Policy, plans: str) -> Policy:
    """This policy, on the published plans or a given one where `plans` says so."""
    if more := _deployment(plans):
        policy.deployment = one_policy(more).deployment
    return policy


def _deployment(plans: str) -> list[str]:
    if plans in (OWN, PAPER):
        return [f"policy/deployment={PAPER}"] if plans == PAPER else []
    if not _PLAN.fullmatch(plans):
        raise BadInput(
            f"plans is {plans!r}; choose {OWN} (every policy plans for itself), {PAPER} (published plans) or give a "
            "plan as tp,pp x count, such as '2,1x1;1,1x2'"
        )
    return ["policy/deployment=given", f"policy.deployment.replicas='{plans}'"]


def one_policy(overrides: list[str]) -> Policy:
    """The configuration of a policy: `conf/one_policy.yaml` with these overrides."""
    if GlobalHydra.instance().is_initialized():
        config = compose("one_policy", overrides=overrides)
    else:  # a launcher's own process
        with initialize_config_module("conf", version_base="1.3"):
            config = compose("one_policy", overrides=overrides)
    return cast(schema.OnePolicy, OmegaConf.to_object(config)).policy


def _place(name: str) -> tuple[int, str]:
    fitting = [place for place, family in enumerate(ORDER) if name.startswith(family)]
    return (fitting[-1] if fitting else len(ORDER), name)
