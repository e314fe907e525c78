"""Each bucket to the replicas with the least room that still hold it: dispatch by length.

Idea: short sequences need no large tensor parallelism, so every bucket goes to the smallest budget that holds it,
evenly over the replicas of that budget. Cost: O(R J). Source: the paper's length-based dispatch (its "greedy" ablation
and the loads of its lower bound). Limits: no look at the load; replicas of one range may drown while others idle. A
range that no bucket falls into leaves its replicas idle; it is never an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array, Bucket
from lobra.plan import DeploymentPlan
from lobra.protocols import Batching, CostModel
from lobra.rates import Assignment
from policies.dispatch.fleet import Fleet, bucket_counts, fleet_of
from policies.dispatch.shares import shares_of
from policies.dispatch.uniform import deal
from policies.machines import Machine


@dataclass(frozen=True, slots=True)
class CheapestFit:
    """The smallest budget that holds a bucket computes it."""

    def assign(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        """Every sequence to exactly one replica that can hold it; Infeasible where a bucket fits none."""
        machines = tuple(map(Machine, plan.replicas))
        fleet = fleet_of(buckets, machines, batching, cost)
        return Assignment(shares_of(buckets, deal_by_length(bucket_counts(buckets), fleet, machines)))


def deal_by_length(counts: Array, fleet: Fleet, machines: Sequence[Machine]) -> Array:
    """Each bucket dealt evenly over the machines with the least room that hold it; int64 [R, J] from counts [J]."""
    examples = [machines[position] for position in np.unique(fleet.kind, return_index=True)[1].tolist()]
    room = np.array([[machine.replica.budget * machine.shards] for machine in examples])
    smallest = np.where(fleet.fits, room, np.iinfo(np.int64).max).min(axis=0)
    return deal(counts, (fleet.fits & (room == smallest))[fleet.kind])
