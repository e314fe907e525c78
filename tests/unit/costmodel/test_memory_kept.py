"""What backward keeps, against the executor's own count and against what others measured."""

import csv

import pytest
import torch

import toys
from costmodel.hardware import cluster_spec, model_spec
from costmodel.memory import GIB, SAVED_FACTOR, AnalyticMemory
from costmodel.memory_executor import ExecutorMemory
from costmodel.memory_kept import kept, stage_kept
from costmodel.memory_report import account
from executor.config import ModelConfig
from executor.data import SyntheticTokens
from executor.engine import Engine
from executor.saved import counting
from executor.settings import Settings
from executor.weights import RandomWeights
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec, SequenceRef, Tenant

CLUSTER = ClusterSpec("cpu", 1, 1, GpuSpec("cpu", 1, 1, 10), Link(10, 1), Link(10, 1))
SEVEN = model_spec("llama2_7b")


def counted(model: ModelSpec, tenant: Tenant, rows: int, length: int, recompute: int) -> float:
    """Bytes a token that the executor really keeps, float32 on one rank."""
    plan = DeploymentPlan(model, CLUSTER, (tenant,), (Replica(ReplicaConfig(1, 1, recompute), (0,), rows * length),))
    config = ModelConfig.of(model)
    engine = Engine(config, RandomWeights(config), SyntheticTokens(config.vocabulary), Settings())
    engine.deploy(plan)
    sequences = tuple((SequenceRef(0, number, length, length),) for number in range(rows))
    step = StepPlan(0, ((MicroBatch(sequences, length),),))
    torch.set_num_threads(1)
    with counting(engine) as found:
        engine.run_step(step)
    return found.peak / (rows * length)


def priced(model: ModelSpec, tenant: Tenant, recompute: int) -> float:
    part = kept(model, (tenant,), tp=1, item=4)
    return stage_kept(part, model.layers, recompute, first=True, last=True)


@pytest.mark.parametrize("recompute", [0, 1, 3, 4])
@pytest.mark.parametrize(
    ("sizes", "rank", "targets", "dropout"),
    [
        ((4, 32, 64, 4, 2, 64), 4, None, 0.0),
        ((4, 64, 96, 8, 8, 128), 12, None, 0.1),
        ((4, 32, 64, 4, 1, 64), 8, ("q_proj", "v_proj"), 0.0),
        ((4, 32, 128, 4, 4, 64), 8, ("q_proj", "up_proj"), 0.0),
    ],
)
def test_the_account_is_what_the_executor_keeps_to_the_byte(sizes, rank, targets, dropout, recompute):
    model = ModelSpec("tiny", *sizes)
    changed = {} if targets is None else {"target_modules": targets}
    tenant = Tenant("a", 1, 512, rank=rank, dropout=dropout, **changed)

    assert priced(model, tenant, recompute) == pytest.approx(counted(model, tenant, 2, 64, recompute), rel=1e-9)


def test_where_the_first_adapter_comes_late_the_account_is_an_upper_bound():
    model = ModelSpec("tiny", 4, 32, 64, 4, 2, 64)
    tenant = Tenant("a", 1, 512, rank=4, target_modules=("o_proj", "down_proj"))
    real = counted(model, tenant, 1, 64, 0)

    assert real < priced(model, tenant, 0) < 1.06 * real  # no gradient reaches the first q, k, v


def galvatron(reference_data, tp: int, mark: str = "sp") -> float:
    """Measured bytes a token and layer times tp: the second layer's share of Llama-2-7B at 8 x 2048 tokens."""
    path = reference_data / "gpu_profiles/galvatron/memory_profiling.csv"
    with path.open(newline="") as file:
        found = {
            row["key"]: float(row["value_mb"])
            for row in csv.DictReader(file)
            if row["path"].endswith("llama2-7b_all.json") and row["strategy_pp_tp_dp"] == f"1_{tp}_{8 // tp}_{mark}"
        }
    one, two = (found[f"layernum[{layers}]_bsz8_seq2048_rank0_act"] for layers in (1, 2))
    return (two - one) * 2**20 / 2048


@pytest.mark.parametrize(("tp", "factor"), [(1, 1.715), (2, 1.822), (4, 1.825), (8, 1.822)])
def test_galvatron_measured_nearly_the_constant_that_the_papers_table_gives(reference_data, tp, factor):
    memory = AnalyticMemory(SEVEN, cluster_spec("a100_40gb", 1, 8).gpu, saved_factor=1.0)
    base = memory.breakdown(ReplicaConfig(tp, 1), (), tokens=2048).activations * GIB / 2048 / SEVEN.layers * tp

    measured = galvatron(reference_data, tp) / base

    assert measured == pytest.approx(factor, abs=0.002)
    assert SAVED_FACTOR / measured - 1 == pytest.approx(0.03 if tp > 1 else 0.09, abs=0.01)


def test_galvatrons_recomputed_layer_keeps_twice_its_input(reference_data):
    part = kept(SEVEN, (), tp=1, item=2)
    assert galvatron(reference_data, 1, "c_sp") == pytest.approx(2 * part.inputs, rel=0.01)


def test_a_tenant_of_rank_16_costs_7b_0_64_gigabytes():
    memory = AnalyticMemory(SEVEN, cluster_spec("a100_40gb", 1, 8).gpu)
    part = memory.breakdown(ReplicaConfig(1, 1), (toys.tenant(rank=16),), 0)
    assert (part.adapters + part.gradients + part.optimiser) * GIB == pytest.approx(0.64e9, rel=1e-3)


def test_inputs_that_adapters_save_do_not_divide_by_tensor_parallelism():
    tenants = (toys.tenant(rank=16),)
    one, eight = (kept(SEVEN, tenants, tp, 2).layer for tp in (1, 8))
    bare = [kept(SEVEN, (), tp, 2).layer for tp in (1, 8)]

    assert eight > one / 8 + 2 * 2 * SEVEN.hidden * 7 / 8
    assert bare[1] == pytest.approx(bare[0] / 8)


def test_the_heaviest_stage_decides_and_what_fits_fills_it():
    memory = ExecutorMemory(SEVEN, cluster_spec("a100_40gb", 1, 8).gpu)
    config, tenants = ReplicaConfig(1, 4), tuple(toys.tenant(name) for name in "abcdef")
    tokens = int(memory.tokens(config, tenants))
    spare = [[memory.breakdown(config, tenants, n, stage).spare for stage in range(4)] for n in (tokens, tokens + 1)]

    assert min(spare[0]) >= 0 > min(spare[1])
    assert spare[0].index(min(spare[0])) == account(memory, config, tenants).stage == 0


def test_more_tenants_ranks_dropout_and_precision_never_make_room():
    gpu = cluster_spec("a100_40gb", 1, 8).gpu
    config, one = ReplicaConfig(2, 2), (toys.tenant("a"),)
    base = ExecutorMemory(SEVEN, gpu).tokens(config, one)
    wider = ExecutorMemory(SEVEN, gpu).tokens(config, (toys.tenant("a", rank=256),))
    twelve = ExecutorMemory(SEVEN, gpu).tokens(config, tuple(toys.tenant(f"t{n}") for n in range(12)))
    precise = ExecutorMemory(SEVEN, gpu, item=4).tokens(config, one)
    analytic = [AnalyticMemory(SEVEN, gpu).tokens(config, (toys.tenant("a", dropout=d),)) for d in (0.0, 0.1)]

    assert base > max(wider, twelve, precise)
    assert analytic[0] > analytic[1]


def test_recomputation_makes_room():
    memory = ExecutorMemory(SEVEN, cluster_spec("a100_40gb", 1, 8).gpu)
    room = [memory.tokens(ReplicaConfig(1, 1, layers), (toys.tenant(),)) for layers in (0, 8, 16, 31)]
    assert room == sorted(set(room))


def test_the_papers_table_lies_below_what_the_executor_would_hold(reference_data):
    rows = (reference_data / "published/max_tokens_7b_6tasks_A100-40GB.csv").read_text().split()[1:]
    memory = ExecutorMemory(SEVEN, cluster_spec("a100_40gb", 2, 8).gpu)
    six = tuple(toys.tenant(name) for name in "abcdef")
    ratios = {
        (tp, pp): memory.tokens(ReplicaConfig(tp, pp), six) / tokens
        for tp, pp, tokens in (map(int, row.split(",")) for row in rows)
    }

    assert all(1.9 < ratio < 4.0 for ratio in ratios.values())  # its engine keeps more, and its entries are rounded


@pytest.mark.parametrize("wrong", [{"item": 1}, {"reserve": 1.0}])
def test_wrong_knobs_are_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        ExecutorMemory(SEVEN, cluster_spec("a100_40gb", 1, 8).gpu, **wrong)
