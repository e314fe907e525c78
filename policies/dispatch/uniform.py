"""Every bucket dealt evenly over the replicas that can hold it.

Idea: what homogeneous systems do, and what a planner that knows no costs can do at best. Each bucket is cut into parts
that differ by one sequence at most. Cost: O(R J). Source: the baseline of the paper (Task-Fused), where dealing always
starts at the first replica, which then collects every remainder; here dealing goes on where the bucket before ended.
Limits: blind to speed; on heterogeneous replicas the slowest one decides.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Bucket
from lobra.plan import DeploymentPlan
from lobra.protocols import Batching, CostModel
from lobra.rates import Assignment
from policies.dispatch.fleet import bucket_counts, fleet_of
from policies.dispatch.shares import shares_of
from policies.machines import Machine


@dataclass(frozen=True, slots=True)
class Uniform:
    """As many sequences of each bucket to every replica that holds them."""

    def assign(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        """Every sequence to exactly one replica that can hold it; Infeasible where a bucket fits none."""
        fleet = fleet_of(buckets, tuple(map(Machine, plan.replicas)), batching, cost)
        return Assignment(shares_of(buckets, deal(bucket_counts(buckets), fleet.fits[fleet.kind])))


def deal(counts: Array, eligible: Array) -> Array:
    """Deal counts [J] evenly over the eligible machines, bool [R, J]; remainders go round. Shape int64 [R, J]."""
    dealt = np.zeros(eligible.shape, dtype=np.int64)
    turn = 0  # the machine whose turn it is
    changes = np.flatnonzero((eligible[:, 1:] != eligible[:, :-1]).any(axis=0)) + 1
    edges = {0, *changes.tolist(), len(counts)}
    for start, end in itertools.pairwise(sorted(edges)):  # neighbouring buckets mostly fit the same machines
        members = np.flatnonzero(eligible[:, start])
        if not len(members):
            continue
        each, rest = np.divmod(counts[start:end], len(members))
        first = int(members.searchsorted(turn)) + np.cumsum(rest) - rest
        dealt[members, start:end] = each + ((np.arange(len(members))[:, None] - first) % len(members) < rest)
        if rest.any():
            turn = int(members[(first[-1] + rest[-1] - 1) % len(members)] + 1) % len(eligible)
    return dealt
