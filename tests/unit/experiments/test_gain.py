"""What `lobra gain` tells: bounds that no plan beats, and a diagram that agrees with them at its ends."""

import json
from dataclasses import replace

import numpy as np
import pytest

from commands import check_refused, lobra
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from experiments.gain_bounds import Gain, baseline, gains
from experiments.gain_lengths import lengths_workload
from experiments.gain_phase import WINNERS, phase_of, prices_of
from experiments.walk import World
from lobra.errors import BadInput
from policies.batching.boundaries import DynamicBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.homogeneous import Homogeneous
from policies.dispatch.balanced import Balanced
from policies.dispatch.flexible import FlexibleGroups


def world_of(lengths, *, batch_size=48, max_length=8192):
    model, cluster = model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 8)
    workload = lengths_workload(lengths, batch_size=batch_size, max_length=max_length, seed=0)
    return World(workload, model, cluster, cost_model(model, cluster))


@pytest.fixture(scope="module")
def told():
    world = world_of("lobra4")
    known = baseline(world, 0)
    return world, known, {row.name: row for row in gains(world, 0, known)}


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("heterogeneity", Heterogeneous(Padded(DynamicBuckets(16, 16)), Balanced(), batches=2, pool=3, exchanges=2)),
        ("packing", Homogeneous(Packed(), Balanced(), batches=2)),
        ("context parallelism", Homogeneous(Padded(DynamicBuckets(16, 16)), FlexibleGroups(), batches=2, groups=8)),
        ("all three", Homogeneous(Packed(), FlexibleGroups(), batches=2, groups=8)),
    ],
)
def test_no_plan_with_an_ingredient_undercuts_its_bound(told, name, policy):
    world, _, rows = told
    plan = policy.plan(world.workload, world.model, world.cluster, world.cost)
    assert rows[name].seconds <= plan.certificate.expected_seconds


def test_all_three_can_give_at_least_what_packing_can(told):
    _, _, rows = told
    assert rows["all three"].saves >= rows["packing"].saves


def test_joint_training_is_compared_with_the_tenants_one_by_one(told):
    world, _, rows = told
    alone = [baseline(replace(world, workload=world.workload.only([number])), 0).seconds for number in range(4)]
    assert rows["joint training"].of == pytest.approx(sum(alone))


def test_a_bound_above_its_baseline_saves_nothing():
    assert Gain("packing", 2.0, 1.0, "derived").saves == 0.0


def test_a_short_set_alone_has_no_joint_training_and_says_why():
    world = world_of("gsm8k", max_length=1024)
    last = gains(world, 0, baseline(world, 0))[-1]
    assert (last.saves, last.reason) == (None, "there is one tenant; give a YAML of tenants to ask about it")


def test_where_larger_kinds_cost_nothing_more_no_mix_wins():
    world = world_of("lobra4")
    prices = prices_of(world, 0)
    each, _ = prices.gpu_seconds(0.0, 1.0)
    fits = np.isfinite(each[0])
    spread = np.where(fits, each[0], -np.inf).max(axis=0) / np.where(fits, each[0], np.inf).min(axis=0)
    assert spread == pytest.approx(np.ones(len(spread)))
    phase = phase_of(world, 0)
    assert phase.winner[1.0][0].tolist().count(WINNERS.index("heterogeneity")) < phase.winner[1.0][-1].size


def test_a_csv_is_one_tenant_that_is_cut_at_the_longest_length(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("tokens\n100\n900\n5000\n")
    (tenant,) = lengths_workload(str(path), batch_size=None, max_length=4096, seed=0).tenants
    assert (tenant.batch_size, tenant.context_limit) == (3, 4096)


@pytest.mark.parametrize(
    ("given", "batch_size", "max_length", "said"),
    [
        ("nothing.csv", None, 4096, "lengths: 'nothing.csv' is no file and no shipped set"),
        ("xsum", 0, 4096, "batch_size is 0; it must be a whole number >= 1"),
        ("xsum", None, 0, "max_length is 0; it must be a whole number >= 1"),
    ],
)
def test_wrong_words_are_refused(given, batch_size, max_length, said):
    with pytest.raises(BadInput, match=f"^{said}"):
        lengths_workload(given, batch_size=batch_size, max_length=max_length, seed=0)


def test_the_verb_writes_the_diagram_where_a_directory_is_given(tmp_path):
    (tmp_path / "own.csv").write_text("tokens\n" + "\n".join(map(str, [100, 300, 500] * 20 + [3000] * 4)) + "\n")
    done = lobra("gain", "own.csv", "run_dir=OUT", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "saves at most" in done.stdout
    body = json.loads((tmp_path / "OUT" / "summary.json").read_text())
    assert {"heterogeneity", "packing", "context parallelism", "all three", "joint training"} == {
        row["name"] for row in body["gains"]
    }
    assert (tmp_path / "OUT" / "gain.pdf").read_bytes().startswith(b"%PDF")


def test_a_csv_without_the_column_is_refused_in_one_line(tmp_path):
    (tmp_path / "own.csv").write_text("length\n1\n")
    check_refused(lobra("gain", "own.csv", cwd=tmp_path), 2, "one column 'tokens'")
