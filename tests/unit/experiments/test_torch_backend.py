"""What the executor is told, from the configuration of a job."""

import json

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

import toy_models
from executor.failures import Preempted, RankFailure
from experiments import torch_backend
from experiments.build import build_backend, build_model, build_world
from experiments.failures import exit_code_of, reason
from experiments.schema import register
from experiments.shipped import tenants_file
from lobra.errors import BadInput
from lobra.store import StoreWriter


@pytest.fixture(scope="module", autouse=True)
def hydra():
    register()
    with initialize_config_module("conf", version_base="1.3"):
        yield


def configured(*overrides: str):
    return OmegaConf.to_object(compose("run", overrides=["backend=torch", "model=demo", "cluster=cpu", *overrides]))


def told(tmp_path, *overrides: str):
    config = configured("cost=roofline", *overrides)
    return build_backend(config, build_world(config))(tmp_path).execution


def tenants(tmp_path, *lines: str):
    path = tmp_path / "tenants.yaml"
    path.write_text("tenants:\n" + "".join(f"- {{{line}}}\n" for line in lines))
    return f"workload.file={path}"


def store(folder):
    with StoreWriter(folder, 50) as writer:
        writer.append([1, 2, 3], [(1, 3)])


BASE = "batch_size: 1, context_limit: 64, overlong: truncate"
STORED, LAW = "store: mine", "family: {family: shifted_lognormal, shift: 8, mu: 2, sigma: 0.4}"


def test_tenants_with_stores_are_trained_on_them(tmp_path):
    store(tmp_path / "mine")
    found = told(tmp_path, "workload=own", tenants(tmp_path, f"name: a, {BASE}, {STORED}"))
    assert dict(found.data) == {"kind": "stores", "tenant a": str(tmp_path / "mine")}


def test_tenants_without_data_are_trained_on_patterns(tmp_path):
    found = told(tmp_path, "workload=own", tenants(tmp_path, f"name: a, {BASE}, {LAW}"), "backend.data.seed=5")
    assert dict(found.data) == {"kind": "patterns", "seed": 5}


def test_a_tenant_without_a_store_among_others_is_named(tmp_path):
    store(tmp_path / "mine")
    file = tenants(tmp_path, f"name: a, {BASE}, {STORED}", f"name: b, {BASE}, {LAW}")
    with pytest.raises(BadInput, match="tenant 'b' has no token store; make one with `lobra prepare`"):
        told(tmp_path, "workload=own", file)
    assert dict(told(tmp_path, "workload=own", file, "backend.data.kind=synthetic").data)["kind"] == "synthetic"


def test_a_folder_of_stores_can_be_named(tmp_path):
    overrides = ("workload=demo4", "backend.data.kind=store")
    assert dict(told(tmp_path, *overrides, f"backend.data.path={tmp_path}").data)["path"] == str(tmp_path)
    with pytest.raises(BadInput, match=r"backend.data: kind is 'store' and path None"):
        told(tmp_path, *overrides)


def test_a_schedule_that_decays_ends_with_the_run(tmp_path):
    line = f"name: a, {BASE}, {LAW}, schedule: cosine"
    assert dict(told(tmp_path, "workload=own", tenants(tmp_path, line), "steps=7").settings)["total_updates"] == 7
    assert dict(told(tmp_path, "workload=demo4", "steps=7").settings)["total_updates"] is None


def test_the_planner_takes_the_sizes_of_a_model_directory_and_the_ranks_its_weights(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(
        json.dumps(toy_models.body(num_hidden_layers=3, max_position_embeddings=1024))
    )
    overrides = ("model=directory", f"model.path={tmp_path / 'm'}")
    assert build_model(configured(*overrides).model).layers == 3
    assert dict(told(tmp_path, *overrides, "workload=demo4").model) == {
        "kind": "directory",
        "path": str(tmp_path / "m"),
    }


def test_tenants_with_longer_sequences_than_the_model_has_positions_are_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(toy_models.body(max_position_embeddings=64)))
    with pytest.raises(BadInput, match=r"tenant '\w+': context_limit is \d+, but the model knows only 64 positions"):
        told(tmp_path, "model=directory", f"model.path={tmp_path}", "workload=demo4")
    shorter = ("workload=demo4", "workload.max_length=64")
    assert told(tmp_path, "model=directory", f"model.path={tmp_path}", *shorter).ranks == 2


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("backend.launcher=ssh", "backend.launcher is 'ssh'; choose own, torchrun, attached"),
        ("backend.device=tpu", "backend: device is 'tpu'"),
        ("backend.threads=0", "backend: threads is 0"),
        ("backend.data.kind=web", "backend.data: kind is 'web'"),
        ("workload.file=shipped:demo5.yaml", "choose from demo4.yaml"),
    ],
)
def test_a_wrong_knob_is_refused_before_anything_starts(tmp_path, override, said):
    with pytest.raises(BadInput) as refusal:
        told(tmp_path, "workload=demo4", override)
    assert said in str(refusal.value)


def test_without_torch_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_backend.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"needs the package 'torch'; install lobra\[executor\]"):
        told(tmp_path, "workload=demo4")


def test_shipped_tenants_are_found_by_name_and_others_by_path():
    assert tenants_file("shipped:demo4.yaml").is_file()
    assert str(tenants_file("x/y.yaml")) == "x/y.yaml"


def test_how_a_job_ends_is_in_the_exit_code():
    assert exit_code_of(Preempted("told to stop")) == 5
    assert exit_code_of(RankFailure("rank 1 died")) == 6
    assert reason(RankFailure("rank 1\ndied")) == "rank 1 died"


def test_rings_are_refused_because_only_the_simulator_plays_them(tmp_path):
    with pytest.raises(
        BadInput, match=r"cost\.context is 'ring', but the executor shares micro-batches by Ulysses alone"
    ):
        told(tmp_path, "workload=demo4", "cost.context=ring")
