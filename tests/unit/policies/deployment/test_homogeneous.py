"""Homogeneous deployment is tuned: the fastest of all kinds that hold the longest sequence."""

from dataclasses import dataclass

import numpy as np
import pytest

import toys
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig
from lobra.rates import Assignment
from policies.batching.boundaries import FixedBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.deployment.expected import planning_batches
from policies.deployment.homogeneous import Homogeneous, group_sizes
from policies.dispatch.balanced import Balanced
from policies.dispatch.cheapest import CheapestFit
from policies.dispatch.uniform import Uniform
from policies.evaluate import work_seconds
from policies.policy import step_plan

WIDTHS = Padded(FixedBuckets((128, 256, 512, 1024, 2048, 4096)))
WORKLOAD = toys.workload()


def planned(cost=None, cluster=None, workload=WORKLOAD, **knobs):
    knobs = {"batching": WIDTHS, "dispatch": Uniform(), **knobs}
    return Homogeneous(**knobs).plan(workload, toys.MODEL, cluster or toys.cluster(), cost or toys.ToyCost())


def mean_seconds(plan, batches, cost):
    """An independent loop: the slowest replica of each batch, averaged."""
    slowest = []
    for batch in batches:
        work = step_plan(batch, plan, WIDTHS, Uniform(), cost).work
        slowest.append(max(work_seconds(one, replica, cost) for one, replica in zip(work, plan.replicas, strict=True)))
    return sum(slowest) / len(slowest)


FEW = toys.ToyWorkload((toys.tenant("few", 1, 4096),), ((3000, 4000),))
BUSY = toys.ToyWorkload((toys.tenant("busy", 320, 4096),), ((100, 120, 250),))


@pytest.mark.parametrize(("workload", "expected"), [(FEW, (8, 1)), (BUSY, (4, 1)), (WORKLOAD, (4, 1))])
def test_the_fastest_configuration_that_holds_the_longest_sequence_is_chosen(workload, expected):
    cost, batches = toys.ToyCost(), planning_batches(workload, 3, 11)
    times = {}
    for tp, pp in cost.shapes:
        replicas = toys.replicas((tp, pp, 16 // (tp * pp)))
        if replicas[0].budget >= 4096:
            plan = DeploymentPlan(toys.MODEL, toys.cluster(), workload.tenants, replicas)
            times[tp, pp] = mean_seconds(plan, batches, cost)

    chosen = planned(cost, workload=workload, batches=3, seed=11)

    config = chosen.replicas[0].config
    assert len(times) == 2
    assert (config.tp, config.pp) == min(times, key=times.get) == expected
    assert chosen.certificate.expected_seconds == pytest.approx(min(times.values()))
    assert {replica.config for replica in chosen.replicas} == {config}
    assert chosen.idle_gpus == ()


def test_replicas_fill_what_there_is_and_the_rest_idles():
    plan = planned(toys.ToyCost(shapes=((4, 1),)), toys.cluster(nodes=1, gpus_per_node=7))

    assert plan.summary() == "<4,1>x1"
    assert plan.idle_gpus == (4, 5, 6)


def test_recomputation_makes_small_replicas_hold_long_sequences():
    cost = toys.ToyCost(shapes=((2, 1),))

    assert planned(cost, recompute="full").replicas[0].config == ReplicaConfig(2, 1, recompute=8)
    with pytest.raises(Infeasible):
        planned(cost)


def test_smaller_budgets_of_a_pipeline_are_tried():
    cost = toys.ToyCost(shapes=((8, 2),), fixed=0.0, floor=0.0)

    plan = planned(cost, budgets=2)

    whole = planned(cost)
    assert {replica.budget for replica in plan.replicas} == {4096}
    assert plan.certificate.expected_seconds < whole.certificate.expected_seconds


def test_where_steps_are_short_the_gradient_synchronisation_decides():
    @dataclass(frozen=True)
    class Talkative(toys.ToyCost):
        def synchronise_seconds(self, plan):
            return 0.1 * (len(plan.replicas) - 1)

    short = toys.ToyWorkload((toys.tenant("short", 4, context_limit=1024),), ((100, 200),))
    quiet, talkative = planned(workload=short), planned(Talkative(), workload=short)

    assert len(talkative.replicas) < len(quiet.replicas)
    step = talkative.certificate.expected_seconds - 0.1 * (len(talkative.replicas) - 1)
    assert 0 < talkative.certificate.bound_seconds <= step


def test_the_same_question_has_the_same_answer():
    assert planned() == planned()


def test_the_bound_is_below_and_says_of_what():
    certificate = planned().certificate

    assert 0 < certificate.bound_seconds <= certificate.expected_seconds
    assert "homogeneous" in certificate.bound
    assert certificate.status == "enumerated"


def test_the_bound_of_packed_plans_is_below_packs_that_are_fuller_than_expected():
    full = toys.ToyWorkload((toys.tenant("full", 512, 4096),), ((1024, 2048, 512),))
    cost = toys.ToyCost(floor=0.0, fixed=20.0)

    certificate = planned(cost, workload=full, batching=Packed(), dispatch=Balanced()).certificate

    assert 0.9 * certificate.expected_seconds < certificate.bound_seconds <= certificate.expected_seconds


def test_a_histogram_can_be_trusted_instead_of_the_limit():
    short = toys.ToyWorkload((toys.tenant("short", 8, context_limit=16384),), ((100, 200),))

    assert planned(workload=short, longest="histogram").replicas
    with pytest.raises(Infeasible):
        planned(workload=short)


def test_a_sequence_longer_than_any_replica_holds_is_refused_with_tenant_and_way_out():
    long = toys.ToyWorkload((toys.tenant("long", 8, context_limit=9000), toys.tenant("a")), ((100,), (50,)))

    with pytest.raises(Infeasible) as refusal:
        planned(workload=long)

    assert str(refusal.value) == (
        "tenant 'long' may bring a sequence of 9000 tokens (its context_limit), but on cluster 'toy' the longest that "
        "fits is 8192, on <8,1>; lower its context_limit or admit <16,1>, which holds it"
    )


def test_a_sequence_that_a_larger_cluster_would_hold_names_its_gpus():
    long = toys.ToyWorkload((toys.tenant("long", 8, context_limit=9000),), ((100,),))

    with pytest.raises(Infeasible, match=r"lower its context_limit or take 16 GPUs: <16,1> holds it"):
        planned(workload=long, cluster=toys.cluster(nodes=1))


def test_a_model_too_large_for_the_cluster_names_the_smallest_that_would_do():
    @dataclass(frozen=True)
    class Huge(toys.ToyCost):
        def max_tokens(self, config, tenants):
            del tenants
            return 512 if config.gpus >= 32 else 0

    with pytest.raises(Infeasible) as refusal:
        planned(Huge())

    assert str(refusal.value) == (
        "model 'toy' does not fit on the 16 GPUs of cluster 'toy' in any configuration; "
        "the smallest that would do has 32 GPUs, as <4,8>"
    )


def test_a_model_that_fits_nowhere_is_refused_without_false_hope():
    with pytest.raises(Infeasible, match="take GPUs with more memory, or a smaller model"):
        planned(toys.ToyCost(tokens_per_gpu=0))


@dataclass(frozen=True)
class AllTogether:
    """Every micro-batch shared by all replicas."""

    def assign(self, buckets, plan, batching, cost):
        group = tuple(range(len(plan.replicas)))
        return Assignment(((),) * len(group), batching.form(buckets, plan.replicas[0], cost, group))


def test_replicas_that_share_micro_batches_hold_together_what_one_cannot():
    cost = toys.ToyCost(shapes=((1, 1),))

    plan = planned(cost, groups=None, dispatch=AllTogether())

    assert plan.summary() == "<1,1>x16"
    assert 0 < plan.certificate.bound_seconds <= plan.certificate.expected_seconds
    with pytest.raises(Infeasible, match=r"the longest that fits is 1024, on <1,1>"):
        planned(cost)


def test_sharing_is_judged_with_the_work_split_over_the_group():
    cost = toys.ToyCost(shapes=((1, 1),))
    batch = planning_batches(WORKLOAD, 1, 0)[0]

    plan = planned(cost, groups=None, dispatch=AllTogether(), batches=1)

    replica = Replica(ReplicaConfig(1, 1), (0,), 1024)
    step = step_plan(batch, plan, WIDTHS, AllTogether(), cost)
    assert all(isinstance(micro, MicroBatch) and micro.shape.shards == 16 for micro in step.work[0])
    assert plan.certificate.expected_seconds == pytest.approx(work_seconds(step.work[0], replica, cost))


def test_a_dispatch_that_cannot_share_finds_no_place_and_says_so():
    with pytest.raises(Infeasible, match=r"CheapestFit with Padded finds no place"):
        planned(toys.ToyCost(shapes=((1, 1),)), groups=None, dispatch=CheapestFit())


def test_groups_are_equal_parts_or_powers_of_two():
    assert group_sizes(12) == (1, 2, 3, 4, 6, 8, 12)
    assert np.all(np.array(group_sizes(7)) == [1, 2, 4, 7])
