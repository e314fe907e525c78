"""What studies play: the paper's settings, and small ones that are planned and played in a moment."""

from collections.abc import Mapping, Sequence

Overrides = tuple[str, ...]
SMALL: Overrides = ("experiment=smoke", "workload.batch_size=16", "steps=2")
EIGHTS = "2,1x2;4,1x1"  # a plan for the eight GPUs of the small setting
JUDGED_ONCE = "policy.deployment.batches=1"  # one planning batch


def quick(names: Sequence[str]) -> Mapping[str, Overrides]:
    """These policies with little planning: one planning batch, few candidates played."""
    return {name: (f"policy={name}", JUDGED_ONCE, *_few(name)) for name in names}


def _few(name: str) -> Overrides:
    heterogeneous = name.startswith(("lobra", "length")) and name != "lorafusion_like"
    return ("policy.deployment.pool=1", "policy.deployment.budgets=1") if heterogeneous else ()


def given(name: str, plan: str, *more: str) -> Overrides:
    """A policy on a given plan, in the form `tp,pp x count`."""
    return (f"policy={name}", "policy/deployment=given", f"policy.deployment.replicas='{plan}'", *more)
