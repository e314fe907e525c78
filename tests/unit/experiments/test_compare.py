"""Figures of policies side by side, by hand."""

import numpy as np
import pytest

import toys
from experiments.compare import Failure, plan_rows, result_of, summarise
from experiments.walk import GroupResult
from lobra.plan import Certificate, DeploymentPlan, Replica, ReplicaConfig
from lobra.rates import Provenance
from lobra.trace import StepReport


def group(*seconds: float, plan=None, busy=0.5, tokens=100, useful=80, dispatch=(0.1, 0.3, 0.2), shards=1):
    plan = plan or toys.plan((8, 1, 2))
    reports = [StepReport(i, s, 16, busy * 16 * s, tokens, useful) for i, s in enumerate(seconds)]
    return GroupResult(plan, tuple(reports), 1.5, tuple(dispatch[: len(seconds)]), {"a": 2}, {}, shards)


def result(*groups):
    return result_of(tuple(groups), toys.ToyCost())


def test_a_policy_is_billed_its_steps_on_every_gpu():
    figures = summarise({"task_fused": result(group(1.0, 2.0, 3.0))}, seed=0)["policies"]["task_fused"]
    assert figures["gpu_seconds"] == pytest.approx(16 * 2.0)
    assert figures["step_seconds"] == pytest.approx(2.0)
    assert figures["gpu_seconds_per_step"] == pytest.approx([16.0, 32.0, 48.0])
    assert figures["padding"] == pytest.approx(0.2)
    assert figures["idle"] == pytest.approx(0.5)
    assert figures["dispatch_seconds"] == pytest.approx(0.2)
    assert figures["planning_seconds"] == pytest.approx(1.5)
    assert figures["truncated"] == {"a": 2}
    low, high = figures["interval"]
    assert 16 <= low <= 32 <= high <= 48


def test_groups_that_run_one_after_another_are_summed_batch_by_batch():
    figures = summarise({"p": result(group(1.0, 2.0), group(0.5, 0.5, useful=40))}, seed=0)["policies"]["p"]
    assert figures["gpu_seconds_per_step"] == pytest.approx([24.0, 40.0])
    assert figures["padding"] == pytest.approx(1 - (160 + 80) / 400)
    assert figures["dispatch_seconds"] == pytest.approx((0.2 + 0.6) / 2)
    assert len(figures["plans"]) == 2


def test_the_reduction_is_paired_by_batch():
    base, half = result(group(1.0, 2.0, 3.0)), result(group(0.5, 1.0, 1.5))
    summary = summarise({"task_fused": base, "lobra": half}, seed=0)
    assert summary["baseline"] == "task_fused"
    assert summary["policies"]["lobra"]["reduction"] == pytest.approx(0.5)
    assert summary["policies"]["lobra"]["reduction_interval"] == pytest.approx([0.5, 0.5])
    assert summary["policies"]["task_fused"]["reduction"] == 0.0


def test_without_task_fused_the_first_policy_is_the_baseline():
    summary = summarise({"b": result(group(2.0)), "a": result(group(1.0))}, seed=0)
    assert summary["baseline"] == "b"
    assert summary["policies"]["a"]["reduction"] == pytest.approx(0.5)


def test_a_failed_policy_is_shown_with_its_reason_and_a_failed_baseline_leaves_no_reduction():
    summary = summarise({"task_fused": Failure("too long", 3), "lobra": result(group(1.0))}, seed=0)
    assert summary["policies"]["task_fused"] == {"failed": "too long", "exit_code": 3}
    assert summary["policies"]["lobra"]["reduction"] is None


def test_one_batch_has_no_interval():
    assert summarise({"a": result(group(1.0))}, seed=0)["policies"]["a"]["interval"] is None


def test_equal_replicas_are_counted_and_budgets_told_apart():
    place = [Replica(ReplicaConfig(1, 1), (0,), 2048), Replica(ReplicaConfig(1, 1), (1,), 2048)]
    place += [Replica(ReplicaConfig(1, 1), (2,), 1024), Replica(ReplicaConfig(8, 1, recompute=8), (*range(8, 16),), 99)]
    plan = DeploymentPlan(toys.MODEL, toys.cluster(), (toys.tenant(),), tuple(place))
    assert plan_rows(plan) == [
        {"tp": 1, "pp": 1, "recompute": 0, "budget": 1024, "count": 1},
        {"tp": 1, "pp": 1, "recompute": 0, "budget": 2048, "count": 2},
        {"tp": 8, "pp": 1, "recompute": 8, "budget": 99, "count": 1},
    ]


class Unequal(toys.ToyCost):
    """Large replicas were measured, groups of them derived, small ones only computed."""

    def provenance(self, config, tenants, shards=1):
        del tenants
        status = ("derived" if shards > 1 else "measured") if config.tp > 1 else "roofline"
        return Provenance(status, "toy", (f"tp {config.tp}",))


@pytest.mark.parametrize(
    ("shapes", "shards", "status"),
    [
        (((8, 1, 2),), 1, "measured"),
        (((8, 1, 2),), 2, "derived"),
        (((8, 1, 1), (1, 1, 8)), 1, "roofline"),
    ],
)
def test_a_result_is_as_firm_as_its_weakest_part(shapes, shards, status):
    outcome = result_of((group(1.0, plan=toys.plan(*shapes), shards=shards),), Unequal())
    assert outcome.status == status


def test_idle_gpus_and_unproven_plans_are_noted():
    certificate = Certificate(1.0, 0.9, "fluid", "HiGHS", "time_limit", 0)
    plan = toys.plan((8, 1, 1))
    plan = DeploymentPlan(plan.model, plan.cluster, plan.tenants, plan.replicas, certificate)
    outcome = result(group(1.0, plan=plan))
    assert any("8 GPUs idle" in note for note in outcome.notes)
    assert any("not proven" in note for note in outcome.notes)
    figures = summarise({"a": outcome}, seed=0)["policies"]["a"]
    assert figures["certificates"][0]["gap"] == pytest.approx(1 / 0.9 - 1)


def test_a_summary_is_plain_json_without_nan():
    from experiments.rundir import pretty

    summary = summarise({"a": result(group(0.0, 0.0))}, seed=0)
    assert '"gpu_seconds": 0.0' in pretty(summary)
    assert summary["policies"]["a"]["reduction"] is None
    assert np.isfinite(summary["policies"]["a"]["idle"])
