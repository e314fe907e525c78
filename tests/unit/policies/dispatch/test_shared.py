"""Context parallelism: groups of equal replicas that compute every micro-batch together."""

from dataclasses import dataclass

import pytest

import toys
from lobra.batch import Array
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, ReplicaConfig
from lobra.rates import Rates
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.dispatch.balanced import Balanced
from policies.dispatch.shared import SharedGroups, groups_of
from policies.evaluate import microbatch_seconds
from policies.policy import step_plan
from unit.policies.dispatch.worlds import buckets

COST = toys.ToyCost()
EIGHT = toys.plan((1, 1, 8))  # budgets of 1024


@pytest.mark.parametrize("batching", [Padded(), Packed()])
def test_sequences_too_long_for_one_replica_are_shared(batching):
    batch = toys.batch(100, 200, 300, 3000)

    plan = step_plan(batch, EIGHT, batching, SharedGroups(), COST)

    found = [s.index for m in set(sum(plan.work, ())) for row in m.rows for s in row]
    assert sorted(found) == [0, 1, 2, 3]
    assert {len(m.group) for work in plan.work for m in work} <= {4, 8}
    for number, work in enumerate(plan.work):
        assert all(number in m.group and m.width <= 1024 * len(m.group) for m in work)


def test_shared_micro_batches_run_costliest_first_on_every_member():
    assignment = SharedGroups(shards=2).assign(buckets((512, 20), (1500, 6)), EIGHT, Padded(), COST)

    times = [microbatch_seconds(microbatch, EIGHT.replicas[0], COST) for microbatch in assignment.shared]
    assert times == sorted(times, reverse=True)
    assert assignment.shares == ((),) * 8


def test_groups_of_one_are_plain_balanced_dispatch():
    parts = buckets((512, 20), (1000, 6))

    alone = SharedGroups(shards=1).assign(parts, EIGHT, Padded(), COST)
    plain = Balanced().assign(parts, EIGHT, Padded(), COST)

    assert alone.shared == ()
    assert [[part.count for part in s] for s in alone.shares] == [[part.count for part in s] for s in plain.shares]


def test_the_step_chooses_the_group_size_that_ends_first():
    """Sharing saves nothing here but the fixed part; without long sequences every replica works alone."""
    assignment = SharedGroups().assign(buckets((512, 64)), EIGHT, Padded(), toys.ToyCost(floor=5.0))

    assert assignment.shared == ()


def test_neighbours_of_one_node_form_groups():
    replicas = toys.replicas((1, 1, 16))
    mixed = (*replicas[:3], *replicas[8:11], replicas[3], replicas[11])  # positions 0-2, 6 and 3-5, 7 on a node each
    plan = DeploymentPlan(toys.MODEL, toys.cluster(), (toys.tenant(),), mixed)

    groups = [machine.group for machine in groups_of(plan, 4)]

    assert groups == [(0, 1, 2, 6), (3, 4, 5, 7)]


def test_what_a_node_cannot_complete_is_grouped_across_nodes():
    replicas = toys.replicas((1, 1, 16))
    plan = DeploymentPlan(toys.MODEL, toys.cluster(), (toys.tenant(),), (*replicas[:3], *replicas[8:11]))

    assert [machine.group for machine in groups_of(plan, 2)] == [(0, 1), (2, 5), (3, 4)]


def test_a_group_size_that_does_not_divide_the_replicas_is_refused():
    with pytest.raises(BadInput, match=r"shards 3 does not divide \[8\] equal replicas; give a divisor of 8"):
        SharedGroups(shards=3).assign(buckets((512, 4)), EIGHT, Padded(), COST)


def test_a_sequence_longer_than_all_replicas_together_hold_is_refused():
    with pytest.raises(Infeasible, match=r"width 9000 fits no replicas of <1,1>x8 in any group"):
        SharedGroups().assign(buckets((512, 4), (9000, 1)), EIGHT, Padded(), COST)


def test_groups_of_unequal_replicas_are_never_formed():
    plan = toys.plan((1, 1, 4), (2, 1, 2))

    groups = [machine.group for machine in groups_of(plan, 2)]

    assert groups == [(0, 1), (2, 3), (4, 5)]


def test_fewer_than_one_shard_is_refused():
    with pytest.raises(BadInput, match="shards is 0"):
        SharedGroups(shards=0)


def test_no_sequence_at_all_is_a_step_without_work():
    assert SharedGroups().assign((), EIGHT, Padded(), COST).shares == ((),) * 8


def test_group_sizes_that_the_cost_model_cannot_price_are_passed_over():
    @dataclass(frozen=True)
    class FewHeads(toys.ToyCost):
        def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
            if shards > 4:
                raise BadInput("shards: more than there are heads")
            return toys.ToyCost.rates(self, config, widths, shards)

    parts = buckets((1500, 6))

    assignment = SharedGroups().assign(parts, EIGHT, Padded(), FewHeads())

    assert {len(microbatch.group) for microbatch in assignment.shared} <= {2, 4}
    with pytest.raises(BadInput, match="heads"):
        SharedGroups(shards=8).assign(parts, EIGHT, Padded(), FewHeads())
