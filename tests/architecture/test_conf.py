"""Every file of `conf/` composes, is checked by a schema, and builds what it names."""

import re
from importlib import resources
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from executor.launch import Attached, Torchrun
from experiments.build import build_backend, build_policy, build_world
from experiments.composing import policy_configs, policy_names
from experiments.schema import OPTIONS, VERBS, register
from experiments.study.catalogue import STUDIES
from experiments.whatif.asking import asked_of
from policies.policy import Policy

CONF = Path(str(resources.files("conf")))
FILES = sorted(CONF.rglob("*.yaml"))
POLICIES = (
    "task_fused",
    "task_fused_16",
    "task_fused_cp_packed",
    "task_fused_dynamic",
    "task_fused_packed",
    "task_fused_packed_balanced",
    "task_fused_recompute_packed",
    "task_sequential",
    "task_sequential_packed",
    "length_based",
    "lobra",
    "lobra_fine",
    "lobra_fixed",
    "lobra_flex",
    "lobra_packed",
    "lobra_packed_pipeline",
    "lobra_sequential",
    "flex",
    "lorafusion_like",
    "mlora_like",
)


def stems(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


PLAYED_AS_STUDIES = [
    name
    for name in stems("experiment")
    if "study" in yaml.safe_load((CONF / "experiment" / f"{name}.yaml").read_text())
]
ASKED = [
    name
    for name in stems("experiment")
    if "budgets" in yaml.safe_load((CONF / "experiment" / f"{name}.yaml").read_text())
]  # teams of which questions are asked
SETTINGS = [name for name in stems("experiment") if name not in (*PLAYED_AS_STUDIES, *ASKED)]  # planned and played


@pytest.fixture(scope="module", autouse=True)
def hydra():
    register()
    with initialize_config_module("conf", version_base="1.3"):
        yield


def object_of(config):
    return OmegaConf.to_object(config)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_composes_under_its_schema(verb):
    config = compose(verb)
    for key in OmegaConf.missing_keys(config):
        config[key] = "given"
    assert type(object_of(config)) is VERBS[verb]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_experiment_builds(name):
    config = object_of(compose("compare", overrides=[f"experiment={name}"]))
    world = build_world(config)
    assert world.workload.tenants
    assert world.cluster.gpus == config.cluster.nodes * config.cluster.gpus_per_node


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_every_experiment_goes_with_every_verb_that_plans_or_plays(verb):
    for name in SETTINGS:
        assert type(object_of(compose(verb, overrides=[f"experiment={name}"]))) is VERBS[verb]


@pytest.mark.parametrize("name", stems("experiment"))
def test_every_experiment_begins_with_the_command_that_runs_it(name):
    first, second = (CONF / "experiment" / f"{name}.yaml").read_text().splitlines()[:2]
    assert first == "# @package _global_"
    assert re.match(rf"# lobra (compare|run backend=torch|study|whatif run) experiment={name}\b", second)


@pytest.mark.parametrize("name", ASKED)
def test_every_team_goes_with_questions(name, tmp_path):
    config = object_of(compose("whatif", overrides=[f"experiment={name}", "question=run"]))
    asked = asked_of(config, tmp_path)
    assert {offer.tenant.name for offer in asked.offers} >= set(config.budgets)


def test_every_experiment_that_is_a_study_is_known():
    assert sorted(STUDIES) == PLAYED_AS_STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_an_experiment_of_its_name(name):
    asked = object_of(compose("study", overrides=[f"experiment={name}"]))
    assert (asked.study, asked.sweep, asked.seed) == (name, "smoke", 0)


def test_the_policies_are_those_of_the_design_with_the_baseline_first():
    assert policy_names() == POLICIES


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_builds_under_its_own_name(name):
    policy = build_policy(policy_configs([name], "own")[name], seed=0)
    assert isinstance(policy, Policy)
    assert policy.name == name


@pytest.mark.parametrize("group", [group for group in OPTIONS if group.startswith("policy/")])
def test_every_part_of_a_policy_can_be_exchanged_by_one_word(group):
    for option in stems(group):
        config = compose("run", overrides=[f"{group}={option}"])
        assert isinstance(build_policy(object_of(config.policy), seed=0), Policy)


@pytest.mark.parametrize("group", OPTIONS)
def test_every_kind_of_part_has_an_option(group):
    firsts = [yaml.safe_load((CONF / group / f"{name}.yaml").read_text())["defaults"][0] for name in stems(group)]
    kinds = {first[f"/schema/{group}@_here_"] for first in firsts if isinstance(first, dict)}
    assert kinds == {kind.kind for kind in OPTIONS[group]}


def test_every_cluster_and_model_and_cost_is_known_to_the_cost_model():
    for key in ("cluster", "model"):
        for option in stems(key):
            if option != "directory":  # whose sizes are in the user's folder
                assert build_world(object_of(compose("compare", overrides=[f"{key}={option}", "cost=roofline"])))


@pytest.mark.parametrize("option", ["closed", "sim"])
def test_every_simulator_builds(option, tmp_path):
    config = object_of(compose("compare", overrides=[f"backend={option}", "backend.noise.jitter_sigma=0.1", "seed=3"]))
    backend = build_backend(config, build_world(config))(tmp_path)
    assert backend.noise.seed == 3


@pytest.mark.parametrize(("launcher", "kind"), [("own", Torchrun), ("torchrun", Torchrun), ("attached", Attached)])
def test_the_executor_builds_with_a_rank_for_every_gpu_of_the_cluster(launcher, kind, tmp_path):
    overrides = ["experiment=demo_executor", "backend=torch", f"backend.launcher={launcher}", "backend.dtype=bfloat16"]
    config = object_of(compose("run", overrides=overrides))
    backend = build_backend(config, build_world(config))(tmp_path)
    assert type(backend) is kind
    assert backend.execution.ranks == 4
    assert backend.run_dir == tmp_path / "job"
    assert dict(backend.execution.settings)["dtype"] == "bfloat16"
    assert dict(backend.execution.data) == {"kind": "patterns", "seed": 0}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_no_file_names_a_class_or_reads_the_environment(path):
    text = path.read_text()
    assert "_target_" not in text
    assert set(re.findall(r"\$\{[^}]*\}", text)) <= {"${hydra.job.num}"}


def test_a_value_of_the_command_line_beats_the_group_and_the_experiment():
    config = compose(
        "compare", overrides=["experiment=paper_7b", "cluster.nodes=5", "steps=3", "workload.max_length=99"]
    )
    assert (config.cluster.nodes, config.steps, config.workload.max_length) == (5, 3, 99)
    assert compose("run", overrides=["policy/batching=dynamic", "policy.batching.number=5"]).policy.batching.number == 5


def test_a_number_in_scientific_notation_is_a_number():
    assert compose("run", overrides=["backend.planning_seconds=3e-4"]).backend.planning_seconds == 0.0003
    assert compose("run", overrides=["backend.planning_seconds=3"]).backend.planning_seconds == 3.0


def test_published_plans_replace_every_policys_own():
    configs = policy_configs(("task_fused", "lobra"), "paper")
    assert {config.deployment.kind for config in configs.values()} == {"paper"}
    assert configs["lobra"].batching.kind == "dynamic"


@pytest.mark.parametrize(
    ("policy", "plans"),
    [
        ("task_fused", ["<8,1>x2"]),
        ("lobra", ["<1,1>x6 <2,1>x1 <8,1>x1"]),
        ("task_sequential", ["<4,1>x4", "<8,1>x2", "<8,1>x2", "<4,1>x4", "<8,1>x2", "<8,1>x2"]),
    ],
)
def test_the_papers_7b_plans_are_deployed(policy, plans):
    world = build_world(object_of(compose("compare", overrides=["experiment=paper_7b", "cost=paper"])))
    built = build_policy(policy_configs([policy], "paper")[policy], seed=0)
    groups = built.grouping.groups(world.workload)
    deployed = [built.deployment.plan(group, world.model, world.cluster, world.cost).summary() for group in groups]
    assert deployed == plans
