"""The bytes that backward keeps."""

import gc

import pytest
import torch

from executor.config import ModelConfig
from executor.data import SyntheticTokens
from executor.engine import Engine
from executor.saved import Kept, counting
from executor.settings import Settings
from executor.weights import RandomWeights
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec, SequenceRef, Tenant

MODEL = ModelSpec("tiny", layers=4, hidden=32, intermediate=64, heads=4, kv_heads=2, vocabulary=64)
CLUSTER = ClusterSpec("cpu", 1, 1, GpuSpec("cpu", 1, 1, 10), Link(10, 1), Link(10, 1))


def kept_by(length: int, recompute: int) -> int:
    """Bytes kept for one sequence of this length."""
    replica = Replica(ReplicaConfig(1, 1, recompute), (0,), 512)
    plan = DeploymentPlan(MODEL, CLUSTER, (Tenant("a", 1, 512, rank=4),), (replica,))
    config = ModelConfig.of(MODEL)
    engine = Engine(config, RandomWeights(config), SyntheticTokens(config.vocabulary), Settings())
    engine.deploy(plan)
    step = StepPlan(0, ((MicroBatch(((SequenceRef(0, 0, length, length),),), length),),))
    with counting(engine) as kept:
        engine.run_step(step)
    gc.collect()
    assert kept.now == 0  # backward let go of all of it
    return kept.peak


def test_a_storage_counts_once_and_until_its_last_holder_is_gone():
    kept = Kept(frozenset())
    base = torch.zeros(10, 4)
    first, second = kept.pack(base), kept.pack(base[2:5])
    assert (kept.now, kept.peak) == (160, 160)
    del first
    assert kept.now == 160
    other = kept.pack(torch.zeros(5))
    del second
    assert (kept.now, kept.peak) == (20, 180)
    assert other.tensor.shape == (5,)


def test_weights_do_not_count():
    weight = torch.zeros(8)
    kept = Kept(frozenset({weight.untyped_storage().data_ptr()}))
    assert kept.pack(weight).tensor is weight
    assert kept.peak == 0


def test_what_is_kept_grows_in_proportion_to_the_tokens():
    assert kept_by(128, 0) == pytest.approx(2 * kept_by(64, 0), rel=0.02)


def test_each_recomputed_layer_keeps_its_input_alone():
    none, one, two, three, all_four = (kept_by(64, recompute) for recompute in (0, 1, 2, 3, 4))
    angles = 2 * 64 * (32 // 4 // 2) * 4  # sines and cosines, once, for as long as any layer keeps its own
    assert one - two == two - three == three - all_four - angles > 4 * 64 * 32 * 4
    assert one < none  # the first layer's input needs no gradient, so it keeps less from the beginning
    assert all_four >= 4 * 64 * 32 * 4  # [tokens, hidden] of float32, four times
