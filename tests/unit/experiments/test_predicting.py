"""A prediction beside a run: without noise itself, with an interval of prices and, if asked for, of noise."""

import copy

import numpy as np
import pytest
import yaml

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from costmodel.sources import FOLDER, read_source
from experiments.predicting import Predictor, check_prediction, coverage
from experiments.schema import Noise, Sim
from experiments.schema_executor import Torch
from lobra import stream
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import SequenceRef

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 1, 4)


def microbatch(tokens: int) -> MicroBatch:
    return MicroBatch(((SequenceRef(0, 0, tokens, tokens),),), tokens)


REPLICAS = tuple(Replica(ReplicaConfig(1, 1), (number,), 4096) for number in range(4))
PLAN = DeploymentPlan(SEVEN, CLUSTER, (toys.tenant("a"),), REPLICAS)
STEPS = [StepPlan(number, ((microbatch(2048),), (microbatch(512),), (), ())) for number in range(3)]


@pytest.fixture
def file(tmp_path):
    """A file as of a profile on four ranks of two cores, with noise in its repeats."""
    source = copy.deepcopy(read_source(FOLDER / "llama2_7b_a100_40gb_floor.yaml", "floor_form"))
    source["fits"] = [fit | {"contention": {"ranks": 4, "cores": 2, "factor": 2.0}} for fit in source["fits"][:2]]
    source["step_noise"] = {"jitter_sigma": 0.2, "straggler_probability": 0.0, "straggler_factor": 1.0}
    path = tmp_path / "fitted.yaml"
    path.write_text(yaml.safe_dump(source))
    return path


def predictor(file, **knobs) -> Predictor:
    return Predictor(Sim(**knobs), cost_model(SEVEN, CLUSTER, form="fitted", file=file, memory="analytic"), file)


def test_noise_moves_the_interval_and_not_the_prediction(file, tmp_path):
    quiet, noisy = predictor(file), predictor(file, noise=Noise(fitted=True))

    told = [each.simulated([PLAN, *STEPS], tmp_path) for each in (quiet, noisy)]
    widths = [high - low for low, high in (each.interval([PLAN, *STEPS], 20) for each in (quiet, noisy))]

    assert told[0] == told[1] == list(stream.read(tmp_path / "predicted.jsonl"))
    assert np.all(widths[1] > widths[0])
    assert (
        np.ptp(widths[0]) < 1e-9 < np.ptp(widths[1])
    )  # equal steps: prices are the same for all of them, noise is not


def test_the_same_draws_give_the_same_interval(file):
    each = predictor(file, noise=Noise(fitted=True))
    assert np.array_equal(each.interval([PLAN, *STEPS], 3), each.interval([PLAN, *STEPS], 3))


def test_shared_cores_let_two_busy_ranks_of_four_be_faster_than_the_factor_of_all(file, tmp_path):
    factor, shared = (predictor(file, share_cores=each).simulated([PLAN, *STEPS], tmp_path) for each in (False, True))
    assert shared[0].seconds < 0.75 * factor[0].seconds


def test_coverage_counts_plays_of_all_steps_but_the_first():
    told = coverage([[9.0, 1.0, 2.0], [1.0, 1.2, 2.6]], np.array([0.5, 0.9, 1.8]), np.array([1.5, 1.1, 2.2]))
    assert (told["covered"], told["of"]) == (2, 4)


@pytest.mark.parametrize(
    ("config", "draws", "said"),
    [
        (Torch(), 0, "use backend=sim"),
        (Sim(), -1, "draws is -1; give 0"),
        (Sim(), 1, "draws is 1; give 0"),
        (Sim(noise=Noise(jitter_sigma=0.1)), 0, "give draws=50 too"),
    ],
)
def test_what_would_say_nothing_is_refused(config, draws, said):
    with pytest.raises(BadInput, match=said):
        check_prediction(config, draws)
