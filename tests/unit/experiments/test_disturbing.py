"""What disturbs a simulation, out of a fitted file."""

import copy

import pytest
import yaml

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from costmodel.moving import Moving
from costmodel.sources import FOLDER, read_source
from experiments.disturbing import noise_of, on_shared_cores, redeployment
from experiments.schema import Noise
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica, ReplicaConfig, Shape

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 4)


@pytest.fixture
def fitted(tmp_path):
    """A file as of a profile on four ranks of two cores, where all of them at once took twice as long."""
    source = copy.deepcopy(read_source(FOLDER / "llama2_7b_a100_40gb_floor.yaml", "floor_form"))
    source["fits"] = [fit | {"contention": {"ranks": 4, "cores": 2, "factor": 2.0}} for fit in source["fits"][:2]]
    source["step_noise"] = {"jitter_sigma": 0.05, "straggler_probability": 0.01, "straggler_factor": 2.5}
    path = tmp_path / "fitted.yaml"
    path.write_text(yaml.safe_dump(source))
    return path


def test_the_noise_of_a_profile_is_played_by_the_runs_seed(fitted):
    noise = noise_of(Noise(fitted=True), 7, str(fitted))
    assert noise is not None
    assert (noise.seed, noise.jitter_sigma, noise.straggler_probability, noise.straggler_factor) == (7, 0.05, 0.01, 2.5)


def test_without_strength_there_is_no_noise():
    assert noise_of(Noise(), 7, None) is None


def test_fitted_noise_and_own_knobs_exclude_each_other(fitted):
    with pytest.raises(BadInput, match="it takes the place of the other three"):
        noise_of(Noise(jitter_sigma=0.1, fitted=True), 7, str(fitted))


def test_on_shared_cores_a_rank_alone_has_the_times_of_a_rank_alone(fitted):
    cost = cost_model(SEVEN, CLUSTER, form="fitted", file=fitted, memory="analytic")
    alone, sharing = on_shared_cores(cost, str(fitted))
    shape = Shape(2, 1024, 2048, 2048, 2 * 1024**2, 1, 1)

    for tp in (1, 2):
        replica = Replica(ReplicaConfig(tp, 1), tuple(range(tp)), 4096)
        crowded, quiet = (model.stage_seconds(replica, 0, shape, "forward") for model in (cost, alone))
        assert crowded == pytest.approx(quiet * sharing.slowdown(tp, busy=4))
        assert sharing.slowdown(tp, busy=4) == 2
        assert sharing.slowdown(tp, busy=tp) == 1


def test_a_re_deployment_takes_what_the_executor_was_timed_at_for_the_weights_of_its_fullest_rank(fitted):
    source = yaml.safe_load(fitted.read_text())
    assert redeployment(1.5, str(fitted)) == redeployment(1.5, None) == Moving(1.5)
    fitted.write_text(yaml.safe_dump(source | {"deploy_seconds_per_gib": 2.0, "dtype": "float32"}))
    whole, cut = (
        DeploymentPlan(SEVEN, CLUSTER, (toys.tenant(),), (Replica(ReplicaConfig(tp, 1), tuple(range(tp)), 4096),))
        for tp in (1, 2)
    )
    layers, tables = SEVEN.layers * SEVEN.layer_parameters, 2 * SEVEN.vocabulary * SEVEN.hidden + SEVEN.hidden

    price = redeployment(1.5, str(fitted))

    assert price(cut, whole) == price(whole, whole) == pytest.approx(1.5 + 2.0 * 4 * (layers + tables) / 2**30)
    assert price(whole, cut) == pytest.approx(1.5 + 2.0 * 4 * (layers / 2 + tables) / 2**30)


def test_shared_cores_need_a_fit_that_looked_at_them(fitted):
    with pytest.raises(BadInput, match="it needs layer times that `lobra fit` wrote"):
        on_shared_cores(cost_model(SEVEN, CLUSTER, form="roofline"), str(fitted))
    source = yaml.safe_load(fitted.read_text())
    fitted.write_text(yaml.safe_dump(source | {"fits": [dict(fit, contention=None) for fit in source["fits"]]}))
    with pytest.raises(BadInput, match="it holds no contention"):
        on_shared_cores(cost_model(SEVEN, CLUSTER, form="roofline"), str(fitted))
