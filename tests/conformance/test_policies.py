"""Every policy by name and every pair of parts: no sequence lost, duplicated or placed where it does not fit."""

from itertools import product

import pytest

import toys
from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from experiments.build import build_batching, build_deployment, build_dispatch, build_policy
from experiments.composing import policy_configs, policy_names
from experiments.schema import register
from experiments.traces import joined
from lobra.check import check_conserved, check_step
from lobra.errors import BadInput
from lobra.owed import Owed
from lobra.plan import DeploymentPlan
from policies.policy import step_plan
from sim.simulator import Simulator
from toys import MODEL, ToyCost, cluster, workload
from workloads.catalogue import named_workload

register()
NAMES = policy_names()
PARTS = policy_configs(NAMES, "own")
BATCHINGS = {
    type(config.batching).__name__ + str(getattr(config.batching, "widths", "")): config.batching
    for config in PARTS.values()
}
DISPATCHES = {config.dispatch.kind: config.dispatch for config in PARTS.values()}
DEPLOYMENTS = {
    config.deployment.kind
    + str(getattr(config.deployment, "recompute", ""))
    + str(getattr(config.deployment, "shared", ""))
    + str(getattr(config.deployment, "groups", "")): config.deployment
    for config in PARTS.values()
}


def test_the_fourteen_policies_of_the_study_are_there():
    assert set(NAMES) >= {
        "task_fused",
        "task_fused_16",
        "task_fused_dynamic",
        "task_fused_packed",
        "task_fused_packed_balanced",
        "task_fused_recompute_packed",
        "task_fused_cp_packed",
        "task_sequential",
        "task_sequential_packed",
        "length_based",
        "lobra_fixed",
        "lobra",
        "lobra_packed",
        "lobra_sequential",
    }
    assert set(NAMES) >= {"lorafusion_like", "mlora_like"}


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_trains_every_sequence_of_the_papers_setting_once_where_it_fits(name: str):
    model, hardware = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
    cost = cost_model(model, hardware)
    policy = build_policy(PARTS[name], seed=3)

    for group in policy.grouping.groups(named_workload("lobra6", batch_size=104, seed=5)):
        plan = policy.deployment.plan(group, model, hardware, cost)
        longest = max(tenant.context_limit for tenant in group.tenants)
        most = max(replica.budget for replica in plan.replicas)
        assert max(most, most * _largest_group(plan, name)) >= longest
        batches = list(group.batches(2))
        steps = list(policy.steps(iter(batches), plan, cost))
        account = Owed()
        for batch in batches:
            account.draw(batch)
        for step in steps:
            check_step(plan, step)
            account.train(step)
        account.settle()
        reports = list(joined(Simulator(cost).play([plan, *steps])))
        assert [report.step for report in reports] == [batch.step for batch in batches]
        assert all(report.seconds > 0 and 0 <= report.idle_share < 1 for report in reports)


def _largest_group(plan: DeploymentPlan, name: str) -> int:
    return len(plan.replicas) if "cp" in name or "flex" in name else 1


PAIRS = [
    pair for pair in product(BATCHINGS, DISPATCHES) if pair[1] != "packed_pipeline" or pair[0].startswith("Packed")
]


@pytest.mark.parametrize("batching", [name for name in BATCHINGS if not name.startswith("Packed")])
def test_a_dispatch_of_packs_refuses_padded_batching(batching: str):
    parts = build_batching(BATCHINGS[batching]), build_dispatch(DISPATCHES["packed_pipeline"], 1)

    with pytest.raises(BadInput, match="choose policy/batching=packed, or policy/dispatch=balanced"):
        step_plan(toys.batch(10), toys.plan((1, 1, 4)), *parts, ToyCost())


@pytest.mark.parametrize(("batching", "dispatch"), list(product(BATCHINGS, DISPATCHES)))
def test_a_step_without_a_sequence_is_a_step_without_work(batching: str, dispatch: str):
    parts = build_batching(BATCHINGS[batching]), build_dispatch(DISPATCHES[dispatch], 1)
    deployed, cost = toys.plan((1, 1, 4), (4, 1, 2)), ToyCost()

    step = step_plan(toys.batch(), deployed, *parts, cost)

    assert step.work == ((),) * 6
    (report,) = Simulator(cost).play([deployed, step])
    assert (report.seconds, report.tokens) == (0.0, 0)


@pytest.mark.parametrize(
    ("batching", "dispatch", "deployment"), [(*pair, name) for pair, name in product(PAIRS, DEPLOYMENTS)]
)
def test_every_pair_of_parts_fits_together(batching: str, dispatch: str, deployment: str):
    parts = build_batching(BATCHINGS[batching]), build_dispatch(DISPATCHES[dispatch], 1)
    policy = build_deployment(DEPLOYMENTS[deployment], "fused", *parts, 1)
    cost, tenants = ToyCost(), workload(seed=2)

    plan = policy.plan(tenants, MODEL, cluster(), cost)

    for batch in tenants.batches(2):
        step = step_plan(batch, plan, *parts, cost)
        check_step(plan, step)
        check_conserved(batch, step)
