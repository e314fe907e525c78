"""Balanced dispatch: near the optimum where that can be known, and whole sequences in every corner."""

import time

import numpy as np
import pytest

import toys
from lobra.errors import BadInput, Infeasible
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.bounds.fluid import fluid_bound
from policies.dispatch.balanced import Balanced
from policies.dispatch.cheapest import CheapestFit
from policies.dispatch.fleet import Fleet
from policies.dispatch.uniform import Uniform
from policies.evaluate import work_seconds
from policies.policy import step_plan
from unit.policies.dispatch.worlds import buckets, held, loads

COST = toys.ToyCost()
MIXED = toys.plan((1, 1, 4), (2, 1, 2), (4, 1, 2))


@pytest.mark.parametrize("batching", [Padded(), Packed()])
def test_every_sequence_goes_to_exactly_one_replica_that_holds_it(batching):
    batch = next(toys.workload().batches(1))
    parts = batching.bucket(batch, MIXED, COST)

    assignment = Balanced(repair=10).assign(parts, MIXED, batching, COST)

    assert held(assignment) == sorted((part.width, int(index)) for part in parts for index in part.sequences.index)
    for replica, share in zip(MIXED.replicas, assignment.shares, strict=True):
        assert all(part.width <= replica.budget and part.count for part in share)


def test_it_is_never_slower_than_dealing_by_length_or_evenly():
    batch = next(toys.workload().batches(1))
    slowest = {}
    for policy in (Balanced(work=0), CheapestFit(), Uniform()):
        plan = step_plan(batch, MIXED, Padded(), policy, COST)
        slowest[type(policy)] = max(work_seconds(w, r, COST) for w, r in zip(plan.work, MIXED.replicas, strict=True))

    assert slowest[Balanced] <= slowest[CheapestFit] <= slowest[Uniform]


def test_fewer_sequences_than_replicas_leave_some_idle():
    assignment = Balanced().assign(buckets((512, 2)), MIXED, Padded(), COST)

    assert sum(bool(share) for share in assignment.shares) <= 2
    assert len(held(assignment)) == 2


def test_no_sequence_at_all_is_a_step_without_work():
    assert Balanced().assign((), MIXED, Padded(), COST).shares == ((),) * 8


def test_one_replica_gets_everything():
    plan = toys.plan((4, 1, 1))

    assert len(held(Balanced().assign(buckets((512, 5), (4096, 2)), plan, Padded(), COST))) == 7


def test_a_bucket_that_fits_nowhere_is_refused():
    with pytest.raises(Infeasible, match=r"width 9000 fits no replica of the plan; the longest that fits is 4096"):
        Balanced().assign(buckets((512, 5), (9000, 1)), MIXED, Padded(), COST)


def test_repair_never_slows_formed_micro_batches_down():
    batch = next(toys.workload(seed=4).batches(1))
    seconds = []
    for tries in (0, 40):
        plan = step_plan(batch, MIXED, Packed(), Balanced(repair=tries), toys.ToyCost(run=0.2))
        times = [work_seconds(w, r, toys.ToyCost(run=0.2)) for w, r in zip(plan.work, MIXED.replicas, strict=True)]
        seconds.append(max(times))

    assert seconds[1] <= seconds[0]


def test_repair_corrects_an_estimate_that_is_wrong_about_a_replica():
    """The batching's estimate says all replicas are equal; formed, the first is three times as slow."""
    plan = toys.plan((1, 1, 4))

    class Lopsided(toys.ToyCost):
        def stage_seconds(self, replica, stage, shape, kind):
            return super().stage_seconds(replica, stage, shape, kind) * (3 if replica.gpus == (0,) else 1)

    batch, cost = toys.batch(*[200] * 40), Lopsided()
    slowest = []
    for tries in (0, 60):
        work = step_plan(batch, plan, Packed(), Balanced(repair=tries), cost).work
        slowest.append(max(work_seconds(w, r, cost) for w, r in zip(work, plan.replicas, strict=True)))

    assert slowest[1] < 0.75 * slowest[0]


def test_the_same_step_is_dispatched_the_same_way_twice():
    batch = next(toys.workload().batches(1))

    once, again = (step_plan(batch, MIXED, Padded(), Balanced(repair=5), COST) for _ in range(2))

    assert once == again


@pytest.mark.parametrize("field", ["work", "repair", "seed"])
def test_negative_knobs_are_refused(field):
    with pytest.raises(BadInput, match=f"{field} -1"):
        Balanced(**{field: -1})


def test_an_unknown_split_is_refused():
    with pytest.raises(BadInput, match="split is 'odd'; choose even or full"):
        Balanced(split="odd")


def test_thousands_of_machines_take_seconds():
    """4,096 GPUs and 32,768 sequences; the bound is loose, since a machine has only a few micro-batches."""
    widths = np.array([64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384])
    shapes = [(2048, 1.0, 800), (4096, 0.6, 400), (8192, 0.4, 300), (16384, 0.25, 150)]
    kinds = tuple(loads(room // widths, [0.08] * 12, 1.5e-4 * widths * pace) for room, pace, _ in shapes)
    fleet = Fleet(kinds, np.repeat(np.arange(4), [size for _, _, size in shapes]))
    counts = np.array([9000, 7000, 5000, 3500, 2500, 2000, 1500, 1000, 700, 350, 150, 68])

    start = time.perf_counter()
    dealt = Balanced(work=20).balance(fleet, counts)

    assert dealt.sum(axis=0).tolist() == counts.tolist()
    assert fleet.seconds(dealt).max() <= 1.15 * fluid_bound(fleet.loads, fleet.sizes.tolist(), counts)
    assert time.perf_counter() - start < 20
