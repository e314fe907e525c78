"""`lobra plan` from outside: what it tells of a plan, of moving to another, and of its robustness."""

import json

import pytest

from commands import check_refused, lobra
from experiments.planning_certificate import certificate_line
from lobra.plan import Certificate, DeploymentPlan
from lobra.stream import read

SMALL = ("plan", "lobra", "experiment=smoke", "policy.deployment.batches=2")
LONGER = ("workload.tenants=[dolly_15k,xsum]",)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A plan with everything that can be said of it."""
    folder = tmp_path_factory.mktemp("told")
    done = lobra(*SMALL, "regret=0", "draws=2", "run_dir=P", cwd=folder)
    assert done.returncode == 0, done.stderr
    (group,) = json.loads((folder / "P" / "summary.json").read_text())["groups"]
    return folder, done, group


def test_the_certificate_is_one_line_that_names_bound_gap_solver_and_seed(told):
    _, done, group = told
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("certificate: ")]
    certificate = group["certificate"]
    assert line == certificate["line"]
    for part in (
        f"{certificate['expected_seconds']:.3f} s a step expected",
        f"proven at least {certificate['bound_seconds']:.3f} s",
        f"a gap of {100 * certificate['gap']:.2f} %",
        certificate["bound"],
        f"{certificate['kinds']} kinds, {certificate['undominated']} after pruning",
        certificate["solver"],
        "seed 0",
    ):
        assert part in line


def test_a_certificate_without_a_bound_says_so():
    assert "nothing proven (none: replicas share)" in certificate_line(
        Certificate(2.0, 0.0, "none: replicas share", "none", "fixed", 0)
    )


def test_every_replica_is_told_what_it_is_for(told):
    _, done, group = told
    uses = group["uses"]
    assert sum(use["token_share"] for use in uses) == pytest.approx(1)
    assert sum(use["sequence_share"] for use in uses) == pytest.approx(1)
    assert sum(use["gpus"] for use in uses) + group["idle_gpus"] == 8
    for use in uses:
        assert use["longest"] is None or use["shortest"] <= use["longest"] <= use["budget"]
        assert use["replicas"] in done.stdout


def test_the_best_homogeneous_plans_stand_beside_it_on_the_same_batches(told):
    _, done, group = told
    rows = group["baselines"]
    assert [row["name"] for row in rows] == [
        "this plan",
        "homogeneous",
        "homogeneous, may recompute",
        "homogeneous, may shard weights",
        "homogeneous, may do both",
        "homogeneous, context parallel",
    ]
    assert rows[0]["step_seconds"] == pytest.approx(group["certificate"]["expected_seconds"])
    assert rows[1]["ratio"] >= 1 - 1e-9  # the planner plays every homogeneous plan of its own kinds
    plain, recomputing, sharding, both = (row["step_seconds"] for row in rows[1:5])
    assert both <= min(recomputing, sharding) * (1 + 1e-9) <= plain * (1 + 1e-9) ** 2
    for row in rows:
        assert row["gpu_seconds"] == pytest.approx(8 * row["step_seconds"])
        assert row["status"] in ("measured", "derived")
        assert row["plan"] in done.stdout


def test_without_perturbation_there_is_no_regret(told):
    _, done, group = told
    regret = group["regret"]
    assert (regret["best_share"], regret["mean"], regret["largest"], regret["draws"]) == (1.0, 0.0, 0.0, 2)
    assert "2 draws: this plan is the best in 2" in done.stdout


def test_a_running_plan_with_the_same_tenants_stays(told):
    folder, _, group = told
    done = lobra(*SMALL, "baselines=false", "running=P", "run_dir=SAME", cwd=folder)
    assert done.returncode == 0, done.stderr
    (again,) = json.loads((folder / "SAME" / "summary.json").read_text())["groups"]
    assert again["summary"] == group["summary"]
    assert not again["replanning"]["moves"]
    assert sum(again["replanning"]["alternative"]["received_bytes"]) == 0
    assert "tenants unchanged" in done.stdout
    assert "baselines" not in again


def test_other_tenants_move_it_only_where_that_pays(told):
    folder, _, _ = told
    given = ("plans='8,1x1'", "baselines=false")
    assert lobra(*SMALL, *given, "run_dir=POOR", cwd=folder).returncode == 0
    rows = {}
    for name, terms in (("EAGER", ("horizon=1000000",)), ("SHY", ("horizon=1", "factor=1e9"))):
        done = lobra(*SMALL, *LONGER, "baselines=false", "running=POOR/0", *terms, f"run_dir={name}", cwd=folder)
        assert done.returncode == 0, done.stderr
        (group,) = json.loads((folder / name / "summary.json").read_text())["groups"]
        rows[name] = group["replanning"]
        assert rows[name]["reason"] in done.stdout
        assert "running: <8,1>x1; tenants + xsum, - commitpackft" in done.stdout
        (plan,) = read(folder / name / "0" / "directives.jsonl")
        assert isinstance(plan, DeploymentPlan)
        assert (plan.summary() != "<8,1>x1") is rows[name]["moves"]
    assert (rows["EAGER"]["moves"], rows["SHY"]["moves"]) == (True, False)
    moved = rows["EAGER"]["alternative"]
    assert moved["moving_seconds"] > 0
    assert sum(moved["received_bytes"]) == pytest.approx(moved["weight_bytes"] + moved["state_bytes"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("running=nothing",), 2, ("running: nothing does not exist",)),
        (("running=.",), 2, ("running: . holds no directives.jsonl",)),
        (("running=P", "cluster.nodes=2"), 2, ("running: the plan is of 8 GPUs", "16 of 'a100_40gb'")),
        (("running=P", "model=qwen_32b"), 2, ("running: the plan is of model 'llama2_7b'",)),
        (("running=P", "workload.batch_size=32"), 2, ("tenant 'dolly_15k': it differs", "a new name")),
        (("running=P", "horizon=0"), 2, ("horizon is 0",)),
        (("factor=-1",), 2, ("factor is -1",)),
        (("regret=1.5",), 2, ("the spread is 1.5", "[0, 1)")),
        (("regret=0.1", "law=normal"), 2, ("law is 'normal'", "uniform or lognormal")),
        (("regret=0.1", "draws=0"), 2, ("draws is 0",)),
        (("regret=0.1", "plans='8,1x1'"), 2, ("regret: this policy's plan is given",)),
        (("regret=0.1", "policy=lobra_sequential"), 2, ("regret: policy lobra_sequential trains tenants one after",)),
        (("plans='1,1x8'",), 3, ("may bring a sequence of 4096 tokens",)),
    ],
)
def test_bad_input_gets_one_clear_line(told, arguments, code, said):
    folder, _, _ = told
    base = SMALL if not any(argument.startswith("policy=") for argument in arguments) else ("plan", "experiment=smoke")
    check_refused(lobra(*base, *arguments, "run_dir=BAD", cwd=folder), code, *said)
