"""A cost model out of a file that `lobra fit` wrote."""

from pathlib import Path

import pytest
import yaml

import toys
from costmodel import cluster_spec, cost_model, model_spec
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape

MODEL = model_spec("demo")
TENANTS = tuple(toys.tenant(name) for name in "abc")
SHAPE = Shape(2, 64, 128, 128, 2 * 64**2, 1, 1)


def source(folder: Path, **changed) -> Path:
    fit = {
        "tp": 1, "floor_seconds": 0.0, "fixed_seconds": 2e-3, "run_seconds": 1e-4, "token_seconds": 7e-5,
        "square_seconds": 1e-7, "points": 9, "tokens": [16, 512], "lengths": [16, 256], "mean_error": 0.02,
        "contention": {"ranks": 4, "cores": 2, "factor": 2.5}, "max_tokens": 1024,
    }  # fmt: skip
    document = {
        "schema": 1, "kind": "floor_form", "gpu": "CPU core", "model": "demo", "status": "measured", "source": "here",
        "forward_share": {"linear": 0.4, "attention": 0.3}, "rest_seconds": 0.05, "fits": [fit],
    }  # fmt: skip
    path = folder / "fitted.yaml"
    path.write_text(yaml.safe_dump(document | changed))
    return path


def model(path: Path, gpus: int = 1, **more):
    return cost_model(MODEL, cluster_spec("cpu", 1, gpus), form="fitted", file=path, **more)


def seconds(cost) -> float:
    replica = Replica(ReplicaConfig(1, 1), (0,), 1024)
    return sum(cost.stage_seconds(replica, 0, SHAPE, kind) for kind in ("forward", "backward"))


def test_a_rank_alone_takes_what_was_measured(tmp_path):
    expected = 4 * (2e-3 + 1e-4 + 7e-5 * 128 + 1e-7 * 2 * 64**2)
    assert seconds(model(source(tmp_path))) == pytest.approx(expected)


@pytest.mark.parametrize(("gpus", "factor"), [(1, 1.0), (2, 1.5), (4, 2.5), (8, 4.5)])
def test_ranks_that_share_cores_are_slower_by_the_measured_factor(tmp_path, gpus, factor):
    path = source(tmp_path)
    assert seconds(model(path, gpus)) == pytest.approx(factor * seconds(model(path)))


def test_every_tenant_adds_its_own_to_the_rest_of_a_step(tmp_path):
    cost, plan = model(source(tmp_path, rest_tenant_seconds=0.01), 4), toys.plan((1, 1, 4), tenants=TENANTS)
    assert cost.synchronise_seconds(plan) == pytest.approx(0.05 + 0.01 * 3)


def test_the_rest_of_a_step_and_its_notes_come_from_the_file(tmp_path):
    cost = model(source(tmp_path), 4)
    told = cost.provenance(ReplicaConfig(1, 1), (toys.tenant(),))
    assert cost.synchronise_seconds(toys.plan((1, 1, 4))) == 0.05
    assert (told.status, told.source) == ("measured", "here")
    assert any("ranks share cores" in note for note in told.notes)
    assert [str(config) for config in cost.configs()] == ["<1,1>", "<1,2>", "<1,4>"]


def test_max_tokens_are_those_of_the_file_unless_the_memory_model_is_asked(tmp_path):
    path, config = source(tmp_path), ReplicaConfig(1, 1)
    assert model(path).max_tokens(config, ()) == 1024
    assert model(path, memory="analytic").max_tokens(config, ()) > 10_000


def test_what_does_not_fit_together_is_refused(tmp_path):
    with pytest.raises(BadInput, match="measured with model 'llama', not with 'demo'"):
        model(source(tmp_path, model="llama"))
    with pytest.raises(BadInput, match="fitted needs a file"):
        cost_model(MODEL, cluster_spec("cpu", 1, 1), form="fitted")
    path = source(tmp_path)
    body = yaml.safe_load(path.read_text())
    del body["forward_share"]
    path.write_text(yaml.safe_dump(body))
    with pytest.raises(BadInput, match="the key 'forward_share' is missing"):
        model(path)
