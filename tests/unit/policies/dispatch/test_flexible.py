"""Groups of several sizes in one step: nested blocks, nobody waits, never slower than one size or none."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from lobra.batch import Array
from lobra.check import check_conserved, check_step
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, ReplicaConfig
from lobra.rates import Rates
from policies.batching.boundaries import FixedBuckets
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.bounds.sharing import shared_fluid, sharing_bound
from policies.dispatch.balanced import Balanced
from policies.dispatch.block_dealing import dealt, sharing_of
from policies.dispatch.block_repair import Placed, repair_blocks
from policies.dispatch.blocks import slots_of
from policies.dispatch.flexible import FlexibleGroups, assignment_seconds
from policies.dispatch.shared import SharedGroups
from policies.dispatch.slot_prices import OfFormed, OfPacks
from policies.policy import step_plan
from sim.simulator import Simulator
from unit.policies.dispatch.worlds import Talking, buckets

COST = toys.ToyCost()
EIGHT = toys.plan((1, 1, 8))  # budgets of 1024
PLANS = (EIGHT, toys.plan((1, 1, 7)), toys.plan((1, 1, 4), (2, 1, 2)), toys.plan((1, 1, 4), (1, 2, 2)))
FIXED = Padded(FixedBuckets((128, 512, 1024, 2048, 4096)))
lengths = st.lists(st.sampled_from((60, 128, 400, 900, 1500, 2100, 3900)), min_size=1, max_size=24)


def sizes_of(step):
    """How many sequences are computed by groups of each size."""
    found = {}
    for replica, work in enumerate(step.work):
        for microbatch in work:
            if not microbatch.group or microbatch.group[0] == replica:
                size = max(1, len(microbatch.group))
                found[size] = found.get(size, 0) + sum(map(len, microbatch.rows))
    return found


@settings(max_examples=20, deadline=None)
@given(lengths, st.sampled_from(PLANS), st.sampled_from((FIXED, Packed())))
def test_every_sequence_is_computed_once_where_it_fits_and_nobody_waits(drawn, plan, batching):
    batch, dispatch = toys.batch(*drawn), FlexibleGroups(None, Balanced(work=8, repair=4))

    step = step_plan(batch, plan, batching, dispatch, COST)

    check_step(plan, step)
    check_conserved(batch, step)
    (report,) = Simulator(COST).play([plan, step])
    assignment = dispatch.assign(batching.bucket(batch, plan, COST), plan, batching, COST)
    expected = assignment_seconds(assignment, plan, batching, COST)
    if all(replica.config.pp == 1 for replica in plan.replicas):
        assert report.seconds == pytest.approx(expected)


@settings(max_examples=20, deadline=None)
@given(lengths, st.sampled_from(PLANS), st.sampled_from((FIXED, Packed())))
def test_it_is_never_slower_than_one_size_or_none_nor_faster_than_the_bound(drawn, plan, batching):
    parts, balanced = batching.bucket(toys.batch(*drawn), plan, COST), Balanced(work=8, repair=4)
    seconds = []
    for dispatch in (FlexibleGroups(None, balanced), SharedGroups(None, balanced), balanced):
        try:
            assignment = dispatch.assign(parts, plan, batching, COST)
        except Infeasible:
            continue
        seconds.append(assignment_seconds(assignment, plan, batching, COST))
    sharing = sharing_of(parts, slots_of(plan), batching, COST)

    assert seconds[0] <= min(seconds) * (1 + 1e-12)
    if plan is EIGHT and batching is FIXED:  # whose divisors are powers of two, and whose counts say what is formed
        assert seconds[0] >= sharing_bound(sharing.sizes, sharing.replicas, sharing.counts) * (1 - 1e-9)


@pytest.mark.parametrize("batching", [Padded(), Packed()])
def test_long_sequences_are_shared_and_short_ones_are_not(batching):
    batch = toys.batch(*[100] * 80, *[900] * 24, *[1500] * 8, *[3000] * 4)
    balanced = Balanced(repair=16)

    step = step_plan(batch, EIGHT, batching, FlexibleGroups(None, balanced), Talking())
    (flexible,) = Simulator(Talking()).play([EIGHT, step])
    (one_size,) = Simulator(Talking()).play(
        [EIGHT, step_plan(batch, EIGHT, batching, SharedGroups(None, balanced), Talking())]
    )

    assert sizes_of(step)[1] >= 80
    assert max(sizes_of(step)) >= 4
    assert flexible.seconds < 0.95 * one_size.seconds


def test_a_replica_that_shares_much_computes_little_alone():
    """Only four of the six replicas form a block that holds the long sequences; the other two get more of the rest."""
    cost, plan = Talking(floor=0.0, fixed=0.0, square=0.0), toys.plan((1, 1, 6))
    parts = buckets((1000, 60), (3900, 5))

    assignment = FlexibleGroups().assign(parts, plan, FIXED, cost)

    everything = 60 * 1024 + 5 * 4096 * 1.3  # tokens, padded
    assert {microbatch.group for microbatch in assignment.shared} == {(0, 1, 2, 3)}
    assert assignment_seconds(assignment, plan, FIXED, cost) <= 1.1 * everything / 6 * 8e-6  # 8 layers, 1 us a token
    alone = [sum(part.count for part in share) for share in assignment.shares]
    assert max(alone[:4]) < min(alone[4:])


def test_small_blocks_are_dealt_to_with_what_their_members_share_in_larger_ones():
    """Four replicas have a long sequence to share; two of middle length go to pairs of the other four."""
    slots = slots_of(EIGHT, 4)
    sharing = sharing_of(buckets((2048, 2), (4096, 1)), slots, FIXED, Talking())

    counts = dealt(sharing, shared_fluid(sharing.sizes, sharing.replicas, sharing.counts), Balanced())

    busy = next(set(slots.members[slot]) for slot in np.flatnonzero(counts[:, 1]))
    pairs = [set(slots.members[slot]) for slot in np.flatnonzero(counts[:, 0])]
    assert [len(busy), *map(len, pairs)] == [4, 2, 2]
    assert not any(busy & pair for pair in pairs)


@pytest.mark.parametrize("seed", range(3))
def test_repair_only_ever_shortens_the_step_and_knows_its_seconds(seed: int):
    random, batching = np.random.default_rng(seed), Packed()
    parts = batching.bucket(toys.batch(*random.integers(40, 1000, 40), *[1500] * 3), EIGHT, Talking())
    slots = slots_of(EIGHT)
    sharing = sharing_of(parts, slots, batching, Talking())
    counts = np.zeros((len(slots.members), len(parts)), dtype=np.int64)
    for column, part in enumerate(parts):
        fitting = np.flatnonzero(1024 * slots.size >= part.width)
        counts[:, column] = np.bincount(random.choice(fitting, part.count), minlength=len(counts))
    placed = Placed.of(parts, counts, sharing, batching, Talking())

    makespans = [placed.makespan]
    for _ in range(12):
        repair_blocks(placed, 1)
        makespans.append(placed.makespan)

    assert makespans == sorted(makespans, reverse=True)
    assert makespans[-1] < 0.9 * makespans[0]
    again = [placed.price(slot, held) for slot, held in enumerate(placed.held)]
    assert placed.seconds == pytest.approx(slots.seconds(np.array(again)))
    for column, part in enumerate(parts):
        assert sorted(np.concatenate([held[column] for held in placed.held])) == list(range(part.count))


def test_packs_are_priced_as_they_would_be_formed():
    random, batching, cost = np.random.default_rng(5), Packed(), Talking(run=0.3)
    parts = batching.bucket(toys.batch(*random.integers(40, 1000, 60), *[1500] * 3), EIGHT, cost)
    sharing = sharing_of(parts, slots_of(EIGHT), batching, cost)
    packs, formed = OfPacks(parts, sharing, batching, cost), OfFormed(parts, sharing, batching, cost)
    wide = int(np.flatnonzero(sharing.slots.size == 2)[0])

    for slot in (wide, len(sharing.slots.members) - 1):
        for _ in range(5):
            held = tuple(
                np.flatnonzero(random.random(part.count) < 0.3 * (part.width <= 1024 * sharing.slots.size[slot]))
                for part in parts
            )

            assert packs.seconds(slot, held) == pytest.approx(formed.seconds(slot, held))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.summary())
def test_blocks_are_nested_or_apart_of_equal_replicas_without_a_pipeline(plan: DeploymentPlan):
    slots = slots_of(plan)
    groups = [set(members) for members in slots.members]

    assert slots.members[-len(plan.replicas) :] == tuple((replica,) for replica in range(len(plan.replicas)))
    for number, one in enumerate(groups):
        assert all(one <= other or other <= one or not one & other for other in groups)
        assert len(one).bit_count() == 1
        configs = {plan.replicas[member].config for member in one}
        assert len(configs) == 1
        assert len(one) == 1 or configs.pop().pp == 1
        assert all((number in slots.above[replica]) == (replica in one) for replica in range(len(plan.replicas)))


def test_blocks_leave_a_node_only_where_none_could_hold_them():
    replicas = toys.replicas((1, 1, 16))
    plan = DeploymentPlan(toys.MODEL, toys.cluster(), (toys.tenant(),), (*replicas[:6], *replicas[8:14]))
    node_of = [plan.cluster.node_of(replica.gpus[0]) for replica in plan.replicas]
    nodes = {members: {node_of[position] for position in members} for members in slots_of(plan).members}

    assert max(map(len, nodes)) == 4
    assert all(len(found) == 1 for found in nodes.values())
    assert max(map(len, slots_of(toys.plan((1, 1, 16))).members)) == 16


def test_groups_are_no_larger_than_allowed():
    parts = buckets((512, 8), (1500, 6))

    assignment = FlexibleGroups(largest=2).assign(parts, EIGHT, Padded(), Talking())

    assert {len(microbatch.group) for microbatch in assignment.shared} == {2}
    with pytest.raises(Infeasible, match=r"width 3000 fits no"):
        FlexibleGroups(largest=2).assign(buckets((3000, 1)), EIGHT, Padded(), COST)
    with pytest.raises(BadInput, match="largest is 0"):
        FlexibleGroups(largest=0)


def test_a_sequence_longer_than_all_replicas_together_hold_is_refused():
    with pytest.raises(Infeasible, match=r"width 9000 fits no replicas of <1,1>x8 in any group"):
        FlexibleGroups().assign(buckets((512, 4), (9000, 1)), EIGHT, Padded(), COST)


def test_group_sizes_that_the_cost_model_cannot_price_are_passed_over():
    @dataclass(frozen=True)
    class FewHeads(toys.ToyCost):
        def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
            if shards > 2:
                raise BadInput("shards: more than there are heads")
            return toys.ToyCost.rates(self, config, widths, shards)

    assignment = FlexibleGroups().assign(buckets((512, 9), (1500, 6)), EIGHT, Packed(), FewHeads())

    assert {len(microbatch.group) for microbatch in assignment.shared} == {2}


def test_no_sequence_at_all_is_a_step_without_work():
    assert FlexibleGroups().assign((), EIGHT, Padded(), COST).shares == ((),) * 8


def test_the_same_step_is_dealt_the_same_way():
    parts = Packed().bucket(toys.batch(*np.random.default_rng(1).integers(30, 3900, 60)), EIGHT, COST)
    dispatch = FlexibleGroups(None, Balanced(repair=8))

    one, other = (dispatch.assign(parts, EIGHT, Packed(), Talking()) for _ in range(2))

    assert one.shared == other.shared
    assert [[part.sequences.refs() for part in share] for share in one.shares] == [
        [part.sequences.refs() for part in share] for share in other.shares
    ]
