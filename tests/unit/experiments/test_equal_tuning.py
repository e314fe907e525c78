"""The same lines tune a homogeneous and a heterogeneous plan alike: candidates, batches and all choices beside them."""

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from experiments.build import build_policy, build_world
from experiments.composing import one_policy
from experiments.schema import register
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.homogeneous import Homogeneous

BATCHINGS = {
    "padded to 7": ("policy/batching=padded",),
    "padded to 16": ("policy/batching=padded_16",),
    "dynamic": ("policy/batching=dynamic",),
    "dynamic, fine": ("policy/batching=dynamic", "policy.batching.number=64", "policy.batching.step=64"),
    "packed": ("policy/batching=packed",),
}
SHARING = {"balanced": 1, "balanced_packed": 1, "flexible": 64}
EQUAL = ("candidates", "recompute", "fsdp", "budgets", "groups", "batches", "seed", "longest", "batching", "dispatch")


@pytest.fixture(scope="module", autouse=True)
def hydra():
    register()
    with initialize_config_module("conf", version_base="1.3"):
        yield


def world(*overrides):
    return build_world(OmegaConf.to_object(compose("compare", overrides=["experiment=paper_7b", *overrides])))


@pytest.mark.parametrize(
    ("batching", "dispatch", "recompute", "fsdp"),
    [
        ("padded to 7", "balanced", "none", 1),
        ("padded to 16", "flexible", "some", 8),
        ("dynamic", "flexible", "full", 1),
        ("dynamic, fine", "balanced", "some", 8),
        ("packed", "balanced_packed", "full", 8),
        ("packed", "flexible", "none", 8),
    ],
)
def test_every_axis_of_a_fair_comparison_is_set_by_the_same_lines(batching, dispatch, recompute, fsdp):
    lines = (
        *BATCHINGS[batching],
        f"policy/dispatch={dispatch}",
        f"policy.deployment.groups={SHARING[dispatch]}",
        f"policy.deployment.recompute={recompute}",
        f"policy.deployment.fsdp={fsdp}",
        "policy.deployment.budgets=3",
        "policy.deployment.batches=8",
        "policy.deployment.candidates=[[1,1],[8,1]]",
    )

    equal, mixed = (
        build_policy(one_policy(["policy=task_fused", f"policy/deployment={name}", *lines]), seed=3).deployment
        for name in ("homogeneous", "heterogeneous")
    )

    assert (type(equal), type(mixed)) == (Homogeneous, Heterogeneous)
    assert {name: getattr(equal, name) for name in EQUAL} == {name: getattr(mixed, name) for name in EQUAL}
    assert (equal.recompute, equal.fsdp, equal.groups, equal.batches) == (recompute, fsdp, SHARING[dispatch], 8)


@pytest.mark.parametrize(("memory", "tokens"), [("table", 2048), ("analytic", 2304)])
def test_memory_comes_from_the_table_or_is_counted_without_rounding_to_powers_of_two(memory, tokens):
    made = world(f"cost.memory={memory}")

    assert made.cost.max_tokens(ReplicaConfig(1, 1), made.workload.tenants) == tokens


def test_what_is_counted_can_be_rounded_as_the_table_is():
    made = world("cost.memory=analytic", "cost.rounding=power_of_two")

    assert made.cost.max_tokens(ReplicaConfig(1, 1), made.workload.tenants) == 2048
    with pytest.raises(BadInput, match=r"cost: .*rounding.*'half'"):
        world("cost.rounding=half")


def test_a_number_of_groups_below_one_is_refused():
    with pytest.raises(BadInput, match="groups is 0; it counts replicas that share, 1 or more"):
        build_policy(one_policy(["policy=task_fused", "policy.deployment.groups=0"]), seed=0)
