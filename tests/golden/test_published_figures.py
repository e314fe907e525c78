"""The paper's 7B figures, re-derived on its own estimate: its cost form, its max-token table and its plans."""

import numpy as np
import pytest

from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from policies.batching.boundaries import SEVEN, SIXTEEN, DynamicBuckets, FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.expected import planning_batches
from policies.deployment.fixed import Fixed
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.judge import Judge
from policies.dispatch.balanced import Balanced
from policies.dispatch.cheapest import CheapestFit
from policies.dispatch.uniform import Uniform
from policies.grouping import Together
from policies.policy import Policy
from sim.simulator import Simulator
from workloads.catalogue import named_workload

MODEL, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
COST = cost_model(MODEL, CLUSTER, form="paper")
HOMOGENEOUS, LOBRA = "8,1x2", "1,1x6;2,1x1;8,1x1"
SYSTEMS = {
    "task_fused": (HOMOGENEOUS, Padded(FixedBuckets(SEVEN)), Uniform()),
    "length_based": (LOBRA, Padded(FixedBuckets(SIXTEEN)), CheapestFit()),
    "lobra_fixed": (LOBRA, Padded(FixedBuckets(SIXTEEN)), Balanced()),
    "lobra": (LOBRA, Padded(DynamicBuckets()), Balanced()),
}


@pytest.fixture(scope="module")
def seconds() -> dict[str, np.ndarray]:
    workload = named_workload("lobra6", seed=0)
    found = {}
    for name, (plan, batching, dispatch) in SYSTEMS.items():
        policy = Policy(name, Together(), Fixed(plan, batching, dispatch), batching, dispatch)
        deployed = policy.deployment.plan(workload, MODEL, CLUSTER, COST)
        directives = [deployed, *policy.steps(workload.batches(10), deployed, COST)]
        reports = Simulator(COST, fidelity="closed", spans=False).play(directives)
        found[name] = np.array([report.seconds for report in reports])
    return found


def saved(seconds: dict[str, np.ndarray], name: str) -> float:
    return 1 - seconds[name].mean() / seconds["task_fused"].mean()


def test_balanced_dispatch_on_fixed_buckets_saves_what_the_paper_says(seconds: dict[str, np.ndarray]):
    assert 0.33 <= saved(seconds, "lobra_fixed") <= 0.43  # paper 36.65 %


def test_dynamic_buckets_bring_the_saving_to_the_papers_headline(seconds: dict[str, np.ndarray]):
    assert 0.40 <= saved(seconds, "lobra") <= 0.50  # paper 45.03 %


def test_every_step_of_the_ablation_helps_on_every_batch(seconds: dict[str, np.ndarray]):
    assert np.all(seconds["lobra_fixed"] <= seconds["length_based"])
    assert seconds["lobra"].mean() < seconds["lobra_fixed"].mean() < seconds["length_based"].mean()
    assert np.all(seconds["length_based"] < seconds["task_fused"])


def test_the_planner_finds_the_papers_plan_or_a_better_one_among_the_papers_candidates():
    batching, dispatch = Padded(DynamicBuckets()), Balanced()
    workload = named_workload("lobra6", seed=0)
    planner = Heterogeneous(batching, dispatch, candidates=((1, 1), (2, 1), (4, 1), (8, 1)))
    unseen = Judge(planning_batches(workload, 6, seed=99), batching, dispatch, COST)

    found = planner.plan(workload, MODEL, CLUSTER, COST)

    papers = Fixed(LOBRA, batching, dispatch).plan(workload, MODEL, CLUSTER, COST)
    assert found.certificate is not None
    assert found.certificate.bound_seconds <= found.certificate.expected_seconds
    assert found.certificate.expected_seconds <= papers.certificate.expected_seconds * (1 + 1e-9)
    # plans were chosen on four batches; on others they may differ by what batches differ
    assert found.summary() == papers.summary() or unseen.seconds(found) <= unseen.seconds(papers) * 1.01


def test_the_default_prices_say_of_the_papers_plan_what_the_paper_says():
    """Layer curves, messages, synchronisation and the head, none of them fitted to a step: the paper 45.03 %."""
    cost, workload, found = cost_model(MODEL, CLUSTER), named_workload("lobra6", seed=0), {}
    for name in ("task_fused", "lobra"):
        plan, batching, dispatch = SYSTEMS[name]
        policy = Policy(name, Together(), Fixed(plan, batching, dispatch), batching, dispatch)
        deployed = policy.deployment.plan(workload, MODEL, CLUSTER, cost)
        directives = [deployed, *policy.steps(workload.batches(5), deployed, cost)]
        reports = Simulator(cost, fidelity="pipeline", spans=False).play(directives)
        found[name] = np.array([report.seconds for report in reports])

    assert 0.42 <= saved(found, "lobra") <= 0.47
