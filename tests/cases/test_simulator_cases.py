"""What users of other simulators ran into, tried here."""

import hashlib
import itertools
from typing import Literal

import pytest
from simpy import Environment

from lobra.errors import BadInput
from lobra.schedule import stage_sizes
from lobra.trace import Span
from sim.island import play_stages
from sim.prices import price
from sim.replica import stages_of
from sim.simulator import Simulator
from toys import ToyCost, plan
from unit.sim.worlds import PerToken, deployed, overlaps, pipelines, report, seconds, work

EVEN = PerToken(forward=1.0, backward=1.0)


def test_events_of_the_same_time_do_not_depend_on_who_was_submitted_first() -> None:
    """sstsimulator/sst-core#52, arbor-sim/arbor#385: four equal micro-batches, stages submitted in every order."""
    traces = set()
    for order in itertools.permutations(range(4)):
        environment = Environment()
        stages = stages_of(environment, 0, price(pipelines(4), work([1] * 4), 0, EVEN, None), [None] * 4)
        logs: list[list[Span]] = [[] for _ in stages]
        assert play_stages(environment, [stages[i] for i in order], [logs[i] for i in order], 0.0)
        traces.add((environment.now, hashlib.sha256(repr(logs).encode()).hexdigest()))

    assert len(traces) == 1
    assert traces.pop()[0] == (4 + 4 - 1) * 2


def test_the_same_input_gives_the_same_trace() -> None:
    """sarchlab/mgpusim#32, accel-sim-framework#60, gem5#289; other hash seeds are tried in test_determinism.py."""
    cost, step = ToyCost(transfer=0.1, synchronise=0.2), work([300, 200, 100], [250, 250])
    traces = {repr(report(Simulator(cost), plan((1, 4, 2)), step)) for _ in range(3)}

    assert len(traces) == 1


@pytest.mark.parametrize(
    ("stages", "loads", "makespan"),
    [
        (8, [1543, 1811, 805, 2727, 566, 787, 1750, 1123, 2984, 1205, 799], 123881),
        (2, [1760, 771, 582, 803, 1119, 342, 982, 588], 28559),
    ],
)
def test_a_device_never_runs_two_operations_at_once(stages: int, loads: list[int], makespan: int) -> None:
    """LoRAFusion's imbalance simulator overlaps operations and says 98447 and 28359."""
    played = report(Simulator(PerToken(forward=1.0, backward=2.0)), pipelines(stages), work(loads))

    assert makespan == played.seconds
    assert not overlaps(played.spans)
    assert 2 * stages * len(loads) == sum(span.kind in ("forward", "backward") for span in played.spans)


@pytest.mark.parametrize("fidelity", ["pipeline", "closed"])
def test_a_pipeline_has_its_bubble_with_many_microbatches_too(fidelity: Literal["pipeline", "closed"]) -> None:
    """LoRAFusion's mono.py drops the bubble where micro-batches outnumber stages: 11 rounds, not 8."""
    half = PerToken(forward=0.5, backward=0.5)

    assert report(Simulator(half, fidelity), pipelines(4), work([1] * 8)).seconds == 11


def test_fewer_microbatches_than_stages_are_played() -> None:
    """pytorch/torchtitan#775: it hangs or raises there."""
    assert seconds(EVEN, pipelines(4), work([1, 1])) == (2 + 4 - 1) * 2


@pytest.mark.parametrize("pp", range(1, 37))
def test_any_number_of_stages_that_a_model_can_be_cut_into_is_played(pp: int) -> None:
    """casys-kaist/LLMServingSim#55, PR#61: pp 4, 9 and 18 of 36 layers never progress."""
    cost = ToyCost(layers=36, floor=0.0, transfer=1e-4)
    played = report(Simulator(cost), deployed((1, pp, 1), layers=36), work([500, 400, 300]))
    whole = report(Simulator(cost), deployed((1, 1, 1), layers=36), work([500, 400, 300]))

    assert played.busy_gpu_seconds == pytest.approx(whole.busy_gpu_seconds)  # no layer is lost or done twice
    assert whole.seconds / pp <= played.seconds <= whole.seconds + 2 * (pp - 1) * 1e-4 * 3  # at worst in sequence


def test_a_batch_that_replicas_do_not_divide_is_played_as_it_was_dealt() -> None:
    """aliyun/SimAI#202: a batch of 32 over 23 replicas; here 9 replicas hold 2 and 14 hold 1."""
    shares = [[1, 1]] * 9 + [[1]] * 14
    played = report(Simulator(EVEN), deployed((1, 1, 23)), work(*shares))

    assert (played.tokens, played.seconds) == (32, 2 * 2)
    assert played.busy_gpu_seconds == 32 * 2

    with pytest.raises(BadInput, match="work for 23 replicas, but the plan has 16"):
        report(Simulator(EVEN), deployed((1, 1, 16)), work(*shares))


@pytest.mark.parametrize(("layers", "pp"), [(10, 3), (7, 2), (62, 4), (30, 4)])
def test_every_layer_is_computed_once_however_the_model_is_cut(layers: int, pp: int) -> None:
    """ml-explore/mlx-lm#1688, NVIDIA/Megatron-LM#1304: 10 layers on 3 ranks lose two, 30 on 4 become 28."""
    cost = ToyCost(layers=layers)
    sizes = stage_sizes(layers, pp)
    played = report(Simulator(cost), deployed((1, pp, 1), layers=layers), work([100]))

    assert sum(sizes) == layers
    assert max(sizes) - min(sizes) <= 1
    assert played.busy_gpu_seconds == pytest.approx(layers * 0.5e-3)  # the toy's floor, once a layer


def test_more_stages_than_layers_are_refused() -> None:
    """Same threads, (3, 4)."""
    with pytest.raises(BadInput, match="pp 4 exceeds the 3 layers"):
        deployed((1, 4, 1), layers=3)


@pytest.mark.parametrize("gpus", [5, 7, 9, 11])
def test_gpus_are_used_or_listed_as_idle_and_all_of_them_are_billed(gpus: int) -> None:
    """Osmantic/ODS PR#2311: 5 GPUs planned as tp 2 x pp 2 leave one idle without a word."""
    pairs = gpus // 2
    deployment = deployed((1, 2, pairs), gpus=gpus)
    played = report(Simulator(EVEN), deployment, work(*[[1]] * pairs))

    assert deployment.idle_gpus == (gpus - 1,)
    assert played.gpus == 2 * pairs + 1 == gpus
    assert played.gpu_seconds == gpus * 4
