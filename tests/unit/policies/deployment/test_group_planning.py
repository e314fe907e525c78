"""Kinds whose replicas share micro-batches: prices, who holds the longest sequence, and plans that use it."""

from dataclasses import dataclass
from math import inf

import numpy as np
import pytest

import toys
from lobra.errors import BadInput, Infeasible
from lobra.plan import ReplicaConfig
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.classes import classes_of, table
from policies.deployment.expected import planning_batches
from policies.deployment.heterogeneous import Heterogeneous
from policies.deployment.homogeneous import Homogeneous
from policies.deployment.judge import Judge
from policies.deployment.placement import Kind, place
from policies.deployment.sharing import group_sizes, group_table, needed
from policies.deployment.tau import fluid_seconds
from policies.dispatch.balanced import Balanced
from policies.dispatch.flexible import FlexibleGroups

WIDTHS = Padded(FixedBuckets((128, 512, 1024, 2048, 4096)))
FLEXIBLE = FlexibleGroups(None, Balanced(work=8))
WORKLOAD = toys.workload()
SMALL, WIDE, PIPELINE = (Kind(ReplicaConfig(*shape), 1024 * shape[0]) for shape in ((1, 1), (4, 1), (1, 2)))


def planned(cost, nodes=1, **knobs):
    knobs = {"dispatch": FLEXIBLE, "batches": 2, "pool": 4, "exchanges": 4, **knobs}
    return Heterogeneous(WIDTHS, **knobs).plan(WORKLOAD, toys.MODEL, toys.cluster(nodes), cost)


@dataclass(frozen=True)
class Judged:
    """The planner's own batches, played."""

    cost: toys.ToyCost
    nodes: int = 1

    def seconds(self, *counts):
        problem_batches = planning_batches(WORKLOAD, 2, 0)
        plan = toys.DeploymentPlan(
            toys.MODEL, toys.cluster(self.nodes), WORKLOAD.tenants, place(counts, toys.cluster(self.nodes))
        )
        return Judge(problem_batches, WIDTHS, FLEXIBLE, self.cost).seconds(plan)


def test_a_class_costs_its_cheapest_group_times_the_members():
    cost = toys.ToyCost()
    batches = planning_batches(WORKLOAD, 2, 0)
    classes = classes_of(batches, WIDTHS, toys.plan((1, 1, 8)), cost)
    kinds = (SMALL, WIDE, PIPELINE)

    prices = group_table(classes, kinds, WIDTHS, cost, cluster=toys.cluster(1), groups=8)

    single = [size * table(classes, [SMALL], WIDTHS, cost, size).each[0] for size in (1, 2, 4, 8)]
    assert np.array_equal(prices.each[0], np.min(single, axis=0))
    assert prices.size[0].tolist() == [1, 1, 1, 2, 4]
    assert np.array_equal(prices.each[2], table(classes, [PIPELINE], WIDTHS, cost).each[0])
    assert prices.rows([1]).size.tolist() == [[1, 1, 1, 1, 1]]


def test_groups_are_powers_of_two_without_pipelines_and_for_bounds_anything():
    assert group_sizes(SMALL, 7, 64) == (1, 2, 4)
    assert group_sizes(SMALL, 7, 2) == (1, 2)
    assert group_sizes(PIPELINE, 8, 64) == (1,)
    assert group_sizes(PIPELINE, 3, 64, loose=True) == (1, 2, 3)
    assert (needed(SMALL, 2500, 8), needed(SMALL, 2500, 8, loose=True), needed(WIDE, 2500, 8)) == (4, 3, 1)
    assert needed(SMALL, 2500, 2) == needed(PIPELINE, 2500, 8) == inf


def test_a_group_may_hold_what_no_replica_does():
    cost = toys.ToyCost(shapes=((1, 1),))

    plan = planned(cost, groups=8)

    assert plan.summary() == "<1,1>x8"
    assert "groups of up to 8" in plan.certificate.bound
    with pytest.raises(Infeasible, match="the longest that fits is 1024"):
        planned(cost)
    with pytest.raises(Infeasible, match=r"the longest that fits is 2048, on <1,1> x 2 together"):
        planned(cost, groups=2)


@pytest.mark.parametrize("cost", [toys.ToyCost(), toys.ToyCost(floor=2.0), toys.ToyCost(fixed=1.0, square=1e-6)])
def test_no_plan_is_below_the_bound_and_the_one_chosen_is_among_the_best(cost):
    """Every mix of three kinds on eight GPUs, played."""
    every = [
        Judged(cost).seconds(
            *(
                (kind, count)
                for kind, count in zip((SMALL, Kind(ReplicaConfig(2, 1), 2048), WIDE), counts, strict=True)
                if count
            )
        )
        for counts in (
            (8, 0, 0),
            (6, 1, 0),
            (4, 2, 0),
            (4, 0, 1),
            (2, 3, 0),
            (2, 1, 1),
            (0, 4, 0),
            (0, 2, 1),
            (0, 0, 2),
        )
    ]

    certificate = planned(cost, groups=8, candidates=((1, 1), (2, 1), (4, 1))).certificate

    assert certificate.bound_seconds <= min(every) * (1 + 1e-9)
    assert certificate.expected_seconds <= min(every) * 1.02


def test_it_is_no_slower_than_equal_replicas_that_share():
    cost = toys.ToyCost(floor=1.0)

    equal = Homogeneous(WIDTHS, FLEXIBLE, groups=None, batches=2).plan(WORKLOAD, toys.MODEL, toys.cluster(1), cost)
    mixed = planned(cost, groups=8)

    assert mixed.certificate.expected_seconds <= equal.certificate.expected_seconds * (1 + 1e-9)


def test_a_plan_whose_dispatch_cannot_hold_the_longest_sequence_is_not_chosen():
    """No planning batch brings it, so only the promise to the tenants speaks against eight small replicas."""
    workload = toys.ToyWorkload((toys.tenant("a", 32, 4096),), ((60, 200, 900),))
    knobs = {"batches": 2, "pool": 4, "groups": 8, "candidates": ((1, 1), (4, 1))}

    summaries = [
        Heterogeneous(WIDTHS, FlexibleGroups(largest, Balanced(work=8)), **knobs)
        .plan(workload, toys.MODEL, toys.cluster(1), toys.ToyCost())
        .summary()
        for largest in (4, 2)
    ]

    assert summaries[0] == "<1,1>x8"
    assert "<4,1>" in summaries[1]


def test_too_few_replicas_to_share_take_for_ever_in_the_fluid():
    classes = classes_of(planning_batches(WORKLOAD, 2, 0), WIDTHS, toys.plan((1, 1, 8)), toys.ToyCost())
    prices = group_table(classes, (SMALL,), WIDTHS, toys.ToyCost(), cluster=toys.cluster(1), groups=8)

    assert fluid_seconds(prices, (3,), classes.counts) == inf
    assert fluid_seconds(prices, (4,), classes.counts) < inf


def test_no_group_at_all_is_refused():
    with pytest.raises(BadInput, match="groups is 0"):
        planned(toys.ToyCost(), groups=0)
