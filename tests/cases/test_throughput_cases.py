"""Throughput as other trainers counted it wrongly: a token once per rank, a cumulative count over the last step's time.

huggingface/trl#7100, PrimeIntellect-ai/prime-rl PR#2424, allenai/open-instruct PR#1032, fangwei123456/spikingjelly
PR#686. Two replicas of two tensor-parallel ranks, sequences of 10 and 14 tokens: 24 tokens a step, whoever computes.
"""

import pytest
from safetensors.torch import load_file

from executor.launch import Torchrun
from lobra.plan import MicroBatch, StepPlan
from lobra.spec import SequenceRef
from lobra.trace import StepReport
from sim.simulator import Simulator
from small_jobs import execution, plan
from unit.sim.worlds import PerToken

DEPLOYED = plan((2, 1), (2, 1))
PIPELINED = plan((1, 2), (2, 1))


def directives(deployed=DEPLOYED):
    yield deployed
    for number in range(3):
        rows = [((SequenceRef(0, 2 * number + place, length, length),),) for place, length in enumerate((10, 14))]
        yield StepPlan(number, tuple((MicroBatch(row, 16),) for row in rows))


def check(reports: list[StepReport]) -> None:
    assert [report.useful_tokens for report in reports] == [24, 24, 24]  # of the step, not of the run so far
    assert [report.tokens for report in reports] == [32, 32, 32]  # with padding
    assert [report.gpus for report in reports] == [4, 4, 4]
    assert [report.gpu_seconds for report in reports] == [4 * report.seconds for report in reports]


def test_two_seconds_a_step_are_twelve_tokens_a_second_and_three_on_each_of_four_gpus():
    reports = list(Simulator(PerToken(forward=2 / 64, backward=6 / 64)).play(directives()))

    check(reports)
    assert [report.useful_tokens / report.seconds for report in reports] == [pytest.approx(12)] * 3
    assert [report.useful_tokens / report.gpu_seconds for report in reports] == [pytest.approx(3)] * 3


def test_real_ranks_count_the_same_tokens_and_bill_every_gpu(tmp_path):
    check(list(Torchrun(tmp_path, execution(ranks=4)).play(directives())))


def test_an_adapter_of_a_job_with_pipelines_holds_all_layers(tmp_path):
    """NVIDIA-NeMo/Automodel PR#3096, over real ranks: a job [PP2 | TP2] publishes what a job of one rank does."""
    list(Torchrun(tmp_path / "four", execution(ranks=4)).play(directives(PIPELINED)))
    one = plan((1, 1))
    together = (StepPlan(each.step, (each.work[0] + each.work[1],)) for each in list(directives())[1:])
    list(Torchrun(tmp_path / "one", execution(ranks=1)).play([one, *together]))

    found, expected = (
        load_file(tmp_path / name / "adapters" / "a" / "adapter_model.safetensors") for name in ("four", "one")
    )
    assert len(found) == 2 * len(one.tenants[0].target_modules) * one.model.layers
    assert {int(key.split("layers.")[1].split(".")[0]) for key in found} == {0, 1, 2, 3}
    assert found.keys() == expected.keys()
    assert all(float((found[key] - expected[key]).abs().max()) < 1e-6 for key in expected)
    assert any(float(value.abs().max()) > 0 for key, value in found.items() if "lora_B" in key)
