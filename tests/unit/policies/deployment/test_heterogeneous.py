"""Heterogeneous deployment: bounded, never worse than homogeneous, and as good as every plan there is."""

import itertools
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import toys
from lobra.batch import Bucket
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, ReplicaConfig
from lobra.rates import Assignment
from policies.batching.boundaries import FixedBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.deployment import sampled, search
from policies.deployment.expected import planning_batches
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.homogeneous import Homogeneous
from policies.deployment.judge import Judge, within_reach
from policies.deployment.placement import Kind, place
from policies.dispatch.balanced import Balanced
from policies.dispatch.uniform import Uniform
from policies.evaluate import count_seconds

WIDTHS = Padded(FixedBuckets((128, 256, 512, 1024, 2048, 4096)))
WORKLOAD = toys.workload()


@dataclass(frozen=True)
class LeastLoaded:
    """Longest bucket first, one sequence after the other to where it ends first: simple, exact, good enough."""

    def assign(self, buckets, plan, batching, cost):
        loads = [batching.loads(buckets, replica, cost) for replica in plan.replicas]
        counts = np.zeros((len(plan.replicas), len(buckets)), dtype=np.int64)
        shares = [[] for _ in plan.replicas]
        for column in reversed(range(len(buckets))):
            taken = []
            for _ in range(buckets[column].count):
                tried = counts.copy()
                tried[:, column] += 1
                ends = [float(count_seconds(load, row)) for load, row in zip(loads, tried, strict=True)]
                taken.append(int(np.argmin(ends)))
                if not np.isfinite(min(ends)):
                    raise Infeasible("a sequence fits nowhere")
                counts[taken[-1], column] += 1
            for replica in set(taken):
                positions = np.flatnonzero(np.array(taken) == replica)
                shares[replica].insert(0, Bucket(buckets[column].width, buckets[column].sequences.take(positions)))
        return Assignment(tuple(map(tuple, shares)))


def planned(cost=None, cluster=None, workload=WORKLOAD, **knobs):
    knobs = {"batching": WIDTHS, "dispatch": LeastLoaded(), "batches": 2, **knobs}
    return Heterogeneous(**knobs).plan(workload, toys.MODEL, cluster or toys.cluster(), cost or toys.ToyCost())


def test_short_and_long_sequences_get_replicas_of_their_own():
    plan = planned()

    assert len({replica.config for replica in plan.replicas}) > 1
    homogeneous = Homogeneous(WIDTHS, LeastLoaded(), batches=2).plan(
        WORKLOAD, toys.MODEL, toys.cluster(), toys.ToyCost()
    )
    assert plan.certificate.expected_seconds < 0.95 * homogeneous.certificate.expected_seconds


@pytest.mark.parametrize("batching", [WIDTHS, Padded(), Packed()], ids=["fixed", "dynamic", "packed"])
@pytest.mark.parametrize("dispatch", [Uniform(), LeastLoaded()], ids=["uniform", "least loaded"])
def test_it_is_never_worse_than_the_tuned_homogeneous_plan(batching, dispatch):
    given = (WORKLOAD, toys.MODEL, toys.cluster(), toys.ToyCost())

    mixed = Heterogeneous(batching, dispatch, batches=2, budgets=1).plan(*given)
    equal = Homogeneous(batching, dispatch, batches=2).plan(*given)

    assert mixed.certificate.expected_seconds <= equal.certificate.expected_seconds


def test_the_expected_seconds_are_those_of_the_plan_on_the_planning_batches():
    plan = planned(seed=4)

    judge = Judge(planning_batches(WORKLOAD, 2, 4), WIDTHS, LeastLoaded(), toys.ToyCost())
    assert plan.certificate.expected_seconds == pytest.approx(judge.seconds(plan))
    assert plan.certificate.seed == 4


def test_no_plan_at_all_beats_its_bound_and_few_beat_the_plan():
    cost, cluster = toys.ToyCost(shapes=((1, 1), (2, 1), (4, 1))), toys.cluster(nodes=1)
    judge = Judge(planning_batches(WORKLOAD, 2, 0), WIDTHS, LeastLoaded(), cost)
    kinds = [Kind(ReplicaConfig(tp, 1), 1024 * tp) for tp in (1, 2, 4)]
    times = []
    for numbers in itertools.product(range(9), range(5), range(1, 3)):
        if sum(number * kind.config.gpus for number, kind in zip(numbers, kinds, strict=True)) == 8:
            counts = [(kind, number) for kind, number in zip(kinds, numbers, strict=True) if number]
            times.append(judge.seconds(DeploymentPlan(toys.MODEL, cluster, WORKLOAD.tenants, place(counts, cluster))))

    certificate = planned(cost, cluster).certificate

    assert certificate.bound_seconds <= min(times)
    assert certificate.expected_seconds == pytest.approx(min(times))
    assert len(times) == 4


def test_the_bound_of_packed_plans_is_below_packs_that_are_fuller_than_expected():
    full = toys.ToyWorkload((toys.tenant("full", 512, 4096),), ((1024, 2048, 512),))
    cost = toys.ToyCost(floor=0.0, fixed=20.0, shapes=((4, 1),))

    certificate = planned(cost, workload=full, batching=Packed(), dispatch=Balanced(work=20), exchanges=0).certificate

    assert 0.9 * certificate.expected_seconds < certificate.bound_seconds <= certificate.expected_seconds


def test_the_longest_admissible_sequence_has_a_replica_though_none_was_expected():
    workload = toys.ToyWorkload((toys.tenant("a", 32, context_limit=8000),), ((50, 100),))

    plan = planned(workload=workload)

    assert max(replica.budget for replica in plan.replicas) >= 8000
    trusting = planned(workload=workload, longest="histogram")
    assert max(replica.budget for replica in trusting.replicas) < 8000


def test_it_never_uses_more_gpus_than_there_are():
    for gpus in (5, 7, 11):
        plan = planned(cluster=toys.cluster(nodes=1, gpus_per_node=gpus))
        assert sum(replica.config.gpus for replica in plan.replicas) + len(plan.idle_gpus) == gpus


def test_uneven_nodes_are_respected():
    plan = planned(cluster=replace(toys.cluster(nodes=3), node_sizes=(3, 5, 6)))

    assert sum(replica.config.gpus for replica in plan.replicas) <= 14


def test_candidates_restrict_the_configurations():
    plan = planned(candidates=((1, 1), (4, 1)))

    assert {(replica.config.tp, replica.config.pp) for replica in plan.replicas} <= {(1, 1), (4, 1)}


def test_recomputation_and_budgets_of_pipelines_widen_the_choice():
    cost = toys.ToyCost(shapes=((1, 1), (2, 2)))

    plan = planned(cost, recompute="full", workload=WORKLOAD)

    assert max(replica.budget for replica in plan.replicas) == 4096
    assert any(replica.config.recompute for replica in plan.replicas)


def test_the_same_question_has_the_same_answer():
    assert planned(seed=9) == planned(seed=9)


def test_the_papers_expected_batch_can_be_planned_on():
    plan, usual = planned(expectation="paper"), planned()

    assert plan.certificate.bound_seconds == pytest.approx(usual.certificate.bound_seconds, rel=1e-3)
    assert plan.certificate.expected_seconds >= plan.certificate.bound_seconds


def test_the_mean_batch_can_be_planned_on_and_is_judged_by_the_same_bound():
    mean, usual = planned(expectation="mean"), planned()

    assert mean.certificate.bound_seconds == usual.certificate.bound_seconds
    assert usual.certificate.expected_seconds <= mean.certificate.expected_seconds * 1.02


def test_the_certificate_says_what_was_considered_and_what_of_the_gap_is_bubble():
    flat = planned(toys.ToyCost(shapes=((1, 1), (4, 1)))).certificate
    piped = planned(toys.ToyCost(shapes=((1, 1), (1, 4), (4, 4)), tokens_per_gpu=1024)).certificate

    assert (flat.kinds, flat.with_bubbles_seconds, flat.bubble_gap) == (2, None, 0.0)
    assert flat.undominated <= flat.kinds
    assert piped.kinds == 1 + 3 + 3
    assert piped.bound_seconds <= piped.with_bubbles_seconds <= piped.expected_seconds
    assert 0 <= piped.bubble_gap <= piped.gap
    assert flat.status == piped.status == "optimal"
    assert flat.notice is None


def test_replicas_that_share_weights_are_planned_in_whole_groups():
    plan = planned(toys.ToyCost(shapes=((1, 1), (4, 1)), tokens_per_gpu=1024), fsdp=4)

    for config in {replica.config for replica in plan.replicas}:
        assert sum(replica.config == config for replica in plan.replicas) % config.fsdp == 0


def test_gurobi_without_a_licence_leaves_a_notice_in_the_certificate(monkeypatch):
    monkeypatch.setitem(sys.modules, "gurobipy", None)

    certificate = planned(solver="auto").certificate

    assert certificate.solver.startswith("HiGHS")
    assert "HiGHS answered instead" in certificate.notice


def test_a_planner_whose_programs_end_at_once_is_no_worse_than_homogeneous_and_says_so(monkeypatch):
    monkeypatch.setattr(sampled, "solve", _nothing_found(sampled.solve))

    plan = planned()

    equal = Homogeneous(WIDTHS, LeastLoaded(), batches=2).plan(WORKLOAD, toys.MODEL, toys.cluster(), toys.ToyCost())
    assert plan.certificate.status == "limit"
    assert plan.certificate.expected_seconds <= equal.certificate.expected_seconds
    assert 0 < plan.certificate.bound_seconds <= plan.certificate.expected_seconds


def _nothing_found(solve):
    """A solver that ends without a point wherever something must be whole."""

    def limited(program, **limits):
        solution = solve(program, **limits)
        return replace(solution, values=None, status="feasible") if program.integer.any() else solution

    return limited


def test_exchanges_improve_the_best_of_the_pool():
    pool_only, improved = planned(exchanges=0), planned(exchanges=24)

    assert improved.certificate.expected_seconds <= pool_only.certificate.expected_seconds
    assert improved.certificate.bound_seconds == pool_only.certificate.bound_seconds


def test_large_workloads_are_played_on_fewer_batches_and_candidates(monkeypatch):
    played = []
    original = Judge.seconds

    def counted(judge, plan, at_most=np.inf):
        played.append(len(judge.batches))
        return original(judge, plan, at_most)

    monkeypatch.setattr(Judge, "seconds", counted)
    monkeypatch.setattr(search, "JUDGED_SEQUENCES", 50)
    monkeypatch.setattr(search, "EXCHANGED_SEQUENCES", 0)

    planned(dispatch=Uniform())

    assert len(played) <= search.LARGE_POOL + 1


def test_batches_are_judged_up_to_a_number_of_sequences_but_one_at_least():
    batches = planning_batches(WORKLOAD, 4, 0)

    assert [len(batch) for batch in batches] == [56] * 4
    assert len(within_reach(batches, 10)) == 1
    assert len(within_reach(batches, 112)) == 2
    assert len(within_reach(batches)) == 4


def test_what_no_replica_holds_is_refused():
    long = toys.ToyWorkload((toys.tenant("long", 8, context_limit=9000),), ((100,),))

    with pytest.raises(Infeasible, match="tenant 'long' may bring a sequence of 9000 tokens"):
        planned(workload=long)
    with pytest.raises(Infeasible, match="does not fit on the 16 GPUs"):
        planned(toys.ToyCost(tokens_per_gpu=0))


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"pool": 0}, "pool is 0"),
        ({"expectation": "hope"}, "expectation is 'hope'; choose sampled, mean or paper"),
        ({"exchanges": -1}, "exchanges is -1"),
        ({"solver": "abacus"}, "solver is 'abacus'"),
    ],
)
def test_wrong_knobs_are_refused(knobs, message):
    with pytest.raises(BadInput, match=message):
        planned(**knobs)
