"""What a comparison is worth if the prices are uncertain."""

import json

import pytest
import yaml

from commands import lobra
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from experiments.intervals import Played, check_draws, interval_lines, price_intervals
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, StepPlan
from lobra.spec import SequenceRef
from toys import replicas, tenant

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
COST = cost_model(SEVEN, CLUSTER)


def played(shape: tuple[int, int, int], length: int, rows: int) -> Played:
    """One step of equal micro-batches, one a replica; 10 s and 160 GPU seconds as it is."""
    plan = DeploymentPlan(SEVEN, CLUSTER, (tenant(context_limit=length),), replicas(*[shape], budget=10**6))
    microbatch = MicroBatch(tuple((SequenceRef(0, n, length, length),) for n in range(rows)), length)
    return Played(160.0, 10.0, ((plan, StepPlan(0, ((microbatch,),) * len(plan.replicas))),))


def test_two_policies_of_one_plan_share_every_draw():
    told = price_intervals({"a": played((1, 1, 16), 512, 4), "b": played((1, 1, 16), 512, 4)}, COST, seed=0, draws=30)

    assert told["a"]["gpu_seconds"] == told["b"]["gpu_seconds"]
    assert told["a"]["beats"] == {"b": 0.0}
    assert told["a"]["gpu_seconds"][0] < 160 < told["a"]["gpu_seconds"][1]


def test_equal_costs_of_unequal_plans_are_an_even_bet():
    told = price_intervals({"a": played((1, 1, 16), 512, 4), "b": played((8, 1, 2), 512, 4)}, COST, seed=0, draws=200)
    assert told["a"]["beats"]["b"] == pytest.approx(0.5, abs=0.12)
    assert told["a"]["beats"]["b"] + told["b"]["beats"]["a"] == 1


def test_the_interval_is_at_least_as_wide_as_repeats_of_one_layer():
    told = price_intervals({"a": played((1, 1, 16), 1024, 2)}, COST, seed=0, draws=150)
    low, high = told["a"]["step_seconds"]
    assert high / low > 0.93 * 14.6 / 12.5  # the largest of 16 equal replicas; 150 draws
    assert told["a"]["gpu_seconds"] == pytest.approx([16 * low, 16 * high])


def test_beyond_what_was_timed_it_is_wider():
    inside, beyond = (
        price_intervals({"a": played((1, 1, 16), length, 1)}, COST, seed=0, draws=100)["a"]["step_seconds"]
        for length in (4096, 16384)
    )
    assert beyond[1] / beyond[0] > (inside[1] / inside[0]) ** 3


@pytest.mark.parametrize("draws", [-1, 1])
def test_a_number_of_draws_that_says_nothing_is_refused(draws):
    with pytest.raises(BadInput, match=r"intervals\.draws is"):
        check_draws(draws)


def test_the_lines_name_the_chance_against_the_baseline():
    row = {"draws": 50, "gpu_seconds": [1.0, 2.0], "step_seconds": [1.0, 2.0], "beats": {"base": 0.96}}
    own = row | {"beats": {"new": 0.04}}
    lines = interval_lines(
        {"baseline": "base", "policies": {"base": {"prices": own}, "new": {"prices": row}, "x": {"failed": "no"}}}
    )
    assert lines[1:] == ["base: 1.00..2.00 GPU s/step", "new: 1.00..2.00 GPU s/step, beats base with probability 0.96"]
    assert interval_lines({"baseline": "x", "policies": {"x": {"failed": "no"}}}) == []


def test_compare_tells_intervals_when_asked(tmp_path):
    small = ("experiment=smoke", "policies=[task_fused,task_sequential]", "workers=1")
    plain = lobra("compare", *small, "run_dir=A", cwd=tmp_path)
    asked = lobra("compare", *small, "intervals.draws=5", "run_dir=B", cwd=tmp_path)
    summaries = [json.loads((tmp_path / run / "summary.json").read_text())["policies"] for run in "AB"]

    assert (plain.returncode, asked.returncode) == (0, 0), asked.stderr
    assert "beats task_fused with probability" not in plain.stdout
    assert "task_sequential: " in asked.stdout
    assert "beats task_fused with probability" in asked.stdout
    for name in summaries[0]:
        assert summaries[1][name]["gpu_seconds"] == summaries[0][name]["gpu_seconds"]
        low, high = summaries[1][name]["prices"]["gpu_seconds"]
        assert low < summaries[0][name]["gpu_seconds"] < high


def profile_table(path, noise: float = 0.0) -> None:
    rows = [
        (tp, length, count, (2.5 + (4.8e-3 * length * count + 1.3e-7 * length**2 * count) / tp) * (1 + noise * (n % 3)))
        for n, (tp, length, count) in enumerate(
            (tp, length, count) for tp in (1, 8) for length in (128, 512, 2048) for count in (1, 2, 4, 8)
        )
    ]
    path.write_text("tp,seq_len,mbs,time\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))


FIT = ("fit", "samples=p.csv", "gpu=A100-40GB", "model_name=llama2_7b", "source=test", "max_tokens=4096")


def test_fit_tells_the_interval_and_takes_a_prior(tmp_path):
    profile_table(tmp_path / "p.csv", noise=0.05)
    plain = lobra(*FIT, "run_dir=F", cwd=tmp_path)
    again = lobra(*FIT, "prior=F/fitted.yaml", "run_dir=G", cwd=tmp_path)
    document = yaml.safe_load((tmp_path / "G" / "fitted.yaml").read_text())

    assert (plain.returncode, again.returncode) == (0, 0), again.stderr
    assert "interval: 90% of further micro-batches within -" in plain.stdout
    assert document["calibration"]["alpha"] == pytest.approx(1.0, abs=0.03)
    assert document["interval"]["half_width"] >= 0.0776


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("\n1,2048,8,", "\n1,2048,8,9000"), "contradicts its neighbours"),
        (lambda text: text.replace("1,128,1,", "1,128,1,nan"), "it must be a number above 0"),
        (lambda text: text.replace("1,128,1,", "1,128,1,-"), "it must be a number above 0"),
    ],
)
def test_fit_refuses_a_bad_table_with_the_reason(tmp_path, change, said):
    profile_table(tmp_path / "p.csv")
    path = tmp_path / "p.csv"
    path.write_text(change(path.read_text()))
    done = lobra(*FIT, "run_dir=F", cwd=tmp_path)

    assert done.returncode == 2
    assert said in done.stderr


def test_fit_warns_of_a_form_that_misses_its_points(tmp_path):
    profile_table(tmp_path / "p.csv", noise=1.0)
    done = lobra(*FIT, "run_dir=F", cwd=tmp_path)
    assert done.returncode == 0
    assert "warning: tp 1: the form misses its own points by" in done.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("backend.noise.fitted=true", "backend.noise.fitted: it needs cost.file=FILE"),
        ("backend.share_cores=true", "backend.share_cores: it needs cost=fitted cost.file=FILE"),
        ("cost.strict=true cost=roofline", "it has no hull"),
    ],
)
def test_options_that_need_a_fit_say_so(tmp_path, option, said):
    done = lobra("compare", "experiment=smoke", "policies=[task_fused]", *option.split(), "run_dir=A", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
