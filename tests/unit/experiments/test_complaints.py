"""Hydra's errors as one line."""

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from experiments.failures import EXPECTED, exit_code_of, reason
from experiments.schema import register
from lobra.errors import BadInput, Infeasible


@pytest.fixture(scope="module", autouse=True)
def hydra():
    register()
    with initialize_config_module("conf", version_base="1.3"):
        yield


@pytest.mark.parametrize(
    ("verb", "override", "said"),
    [
        ("compare", "cluster.node=4", "cluster.node: there is no such key; did you mean cluster.nodes?"),
        ("compare", "clutser=h200", "clutser: there is no such key; did you mean cluster?"),
        ("compare", "workload.sampeler=iid", "did you mean workload.sampler?"),
        ("run", "policy.batching.numbr=4", "did you mean policy.batching.number?"),
        ("run", "backend.noise.jitter=1", "did you mean backend.noise.jitter_sigma?"),
        ("compare", "cluster.nodes=abc", "cluster.nodes is 'abc': give a whole number"),
        ("compare", "steps=3.5", "steps is 3.5: give a whole number"),
        ("compare", "steps=null", "steps: it cannot be null; give a value"),
        ("run", "backend.planning_seconds=long", "backend.planning_seconds is 'long': give a number"),
        ("compare", "fail_fast=perhaps", "fail_fast is 'perhaps': give true or false"),
        ("compare", "policies=lobra", "policies is 'lobra': give a list"),
        ("compare", "cluster=h100", "cluster: there is no option 'h100'; did you mean h100_80gb?"),
        ("run", "policy/dispatch=blanced", "policy/dispatch: there is no option 'blanced'; did you mean balanced?"),
        ("compare", "experiment=paper_7", "experiment: there is no option 'paper_7'; did you mean paper_7b?"),
        ("compare", "policy=lobra", "policy: there is no such group here; name policies by policies=[NAME,...]"),
        ("compare", "cluster.nodes=1,2", "add -m to sweep over them"),
        ("compare", "steps=[1", "steps=[1: it cannot be read"),
        ("run", "plans=2,1x1;1,1x2", "goes in quotes of its own: \"plans='2,1x1;1,1x2'\""),
    ],
)
def test_a_wrong_configuration_is_named_by_its_full_key_with_the_way_out(verb, override, said):
    with pytest.raises(EXPECTED) as refusal:
        compose(verb, overrides=[override])
    text = reason(refusal.value)
    assert said in text
    assert "\n" not in text
    assert exit_code_of(refusal.value) == 2


def test_an_experiment_that_does_not_go_with_an_option_is_named():
    with pytest.raises(EXPECTED) as refusal:
        compose("compare", overrides=["experiment=smoke", "workload=own"])
    assert reason(refusal.value).startswith("experiment/smoke: key 'tenants' not in 'OwnWorkload'")


def test_a_missing_value_is_asked_for():
    config = compose("compare", overrides=["workload=own"])
    with pytest.raises(EXPECTED) as refusal:
        OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert reason(refusal.value) == "workload.file: a value is missing; give workload.file=VALUE"


@pytest.mark.parametrize(
    ("error", "code"),
    [(BadInput("x"), 2), (Infeasible("x"), 3), (KeyboardInterrupt(), 5), (ZeroDivisionError(), 6)],
)
def test_every_failure_has_its_exit_code(error, code):
    assert exit_code_of(error) == code
