"""Laws of dispatch: nothing lost or misplaced, bounds below, better never worse, scale is no matter."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from policies.batching.boundaries import FixedBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.bounds.fluid import fluid_bound
from policies.bounds.latency import latency_bound
from policies.dispatch.balanced import Balanced
from policies.dispatch.cheapest import CheapestFit
from policies.dispatch.fleet import bucket_counts, fleet_of
from policies.dispatch.shared import SharedGroups
from policies.dispatch.uniform import Uniform
from policies.evaluate import work_seconds
from policies.machines import Machine
from policies.policy import step_plan

LONGEST = 4000
QUICK = Balanced(work=10)
BATCHINGS = [Padded(), Padded(FixedBuckets((128, 512, 1024, 2048, 4096))), Packed()]
POLICIES = [Uniform(), CheapestFit(), QUICK, Balanced(work=5, repair=4), SharedGroups(balanced=QUICK)]

batches = st.lists(st.tuples(st.integers(0, 2), st.integers(1, LONGEST)), min_size=1, max_size=50).map(
    lambda found: toys.batch(*[length for _, length in found], tenants=[owner for owner, _ in found])
)
plans = st.sampled_from(
    [
        toys.plan((4, 1, 1)),
        toys.plan((4, 1, 4)),
        toys.plan((1, 1, 6), (2, 1, 1), (4, 1, 2)),
        toys.plan((1, 2, 4), (4, 1, 2)),
        toys.plan((2, 2, 2), (4, 2, 1)),
    ]
)
costs = st.builds(toys.ToyCost, floor=st.sampled_from([0.0, 0.5, 2.0]), run=st.sampled_from([0.0, 0.2]))


def slowest(step, plan, cost):
    return max(work_seconds(work, replica, cost) for work, replica in zip(step.work, plan.replicas, strict=True))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=12, deadline=None)
@given(batch=batches, plan=plans, cost=costs, batching=st.sampled_from(BATCHINGS))
def test_every_sequence_is_computed_exactly_once_where_it_fits(policy, batch, plan, cost, batching):
    step = step_plan(batch, plan, batching, policy, cost)

    found = []
    for number, (work, replica) in enumerate(zip(step.work, plan.replicas, strict=True)):
        for microbatch in work:
            group = microbatch.group or (number,)
            assert number in group
            assert len(microbatch.rows) * microbatch.width <= replica.budget * len(group)
            if number == group[0]:
                found += [tuple(sequence) for row in microbatch.rows for sequence in row]
    assert sorted(found) == sorted(map(tuple, batch.refs()))


@settings(max_examples=25, deadline=None)
@given(batch=batches, plan=plans, cost=costs)
def test_balanced_is_never_slower_than_by_length_nor_uniform_and_never_below_the_bounds(batch, plan, cost):
    batching, cost = Padded(), replace(cost, run=0.0)  # without runs the counts tell the whole price
    buckets = batching.bucket(batch, plan, cost)
    fleet = fleet_of(buckets, tuple(map(Machine, plan.replicas)), batching, cost)
    counts = bucket_counts(buckets)
    bound = max(
        fluid_bound(fleet.loads, fleet.sizes.tolist(), counts), latency_bound(fleet.loads, fleet.sizes.tolist(), counts)
    )

    balanced, by_length, uniform = (
        slowest(step_plan(batch, plan, batching, policy, cost), plan, cost)
        for policy in (QUICK, CheapestFit(), Uniform())
    )

    assert bound * (1 - 1e-9) <= balanced <= min(by_length, uniform) * (1 + 1e-9)


@settings(max_examples=15, deadline=None)
@given(batch=batches, plan=plans, power=st.integers(-6, 6))
def test_hardware_slower_by_a_factor_takes_that_factor_longer(batch, plan, power):
    cost, scale = toys.ToyCost(), 2.0**power
    scaled = replace(cost, **{field: getattr(cost, field) * scale for field in ("floor", "fixed", "token", "square")})

    seconds = [slowest(step_plan(batch, plan, Padded(), QUICK, c), plan, c) for c in (cost, scaled)]

    assert seconds[1] == pytest.approx(seconds[0] * scale, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(batch=batches, plan=plans, cost=costs)
def test_more_work_and_repair_never_slow_a_step_down(batch, plan, cost):
    for batching in (Padded(), Packed()):
        none, some = (
            slowest(step_plan(batch, plan, batching, Balanced(work=0, repair=tries), cost), plan, cost)
            for tries in (0, 8)
        )
        assert some <= none


def test_hash_seeds_change_nothing():
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "import toys\n"
        "from lobra import codec\n"
        "from policies.batching.packed import Packed\n"
        "from policies.dispatch.balanced import Balanced\n"
        "from policies.policy import step_plan\n"
        "plan = toys.plan((1, 1, 6), (2, 1, 1), (4, 1, 2))\n"
        "batch = next(toys.workload().batches(1))\n"
        "print(codec.encode(step_plan(batch, plan, Packed(), Balanced(work=30, repair=10), toys.ToyCost())))\n"
    )

    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4711")
    }

    assert len(runs) == 1
