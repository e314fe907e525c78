"""Context parallelism through shared micro-batches: groups of equal replicas compute every micro-batch together.

Idea: c replicas of a small configuration hold sequences c times as long as one does, if each takes a shard of every
sequence; so long sequences need no large tensor parallelism. Equal replicas are cut into groups of c neighbours, in one
node where that is possible; every group is one machine with c times the budget, and the step is balanced over the
groups. Given no c, every divisor of the numbers of equal replicas that holds the longest bucket is tried, and the one
whose formed micro-batches end first is taken. Cost: one quick dispatch and one forming a divisor. Source: context
parallelism is the usual rival of large tensor parallelism for long sequences (ring or all-to-all attention); the
group size by step is our own. Limits: one c for the whole step; a kind of replica whose number c does not
divide forbids that c.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from operator import itemgetter

from lobra.batch import Bucket
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan
from lobra.protocols import Batching, CostModel
from lobra.rates import Assignment
from policies.dispatch.balanced import Balanced
from policies.evaluate import microbatch_seconds, work_seconds
from policies.machines import Machine, kinds_of


@dataclass(frozen=True, slots=True)
class SharedGroups:
    """Every micro-batch computed by `shards` equal replicas together; None: as many as suit the step best."""

    shards: int | None = None
    balanced: Balanced = Balanced()  # noqa: RUF009  # frozen, so a shared default is safe

    def __post_init__(self) -> None:
        if self.shards is not None and self.shards < 1:
            raise BadInput(f"shared groups: shards is {self.shards}; give 1 or more, or none to let every step choose")

    def assign(
        self, buckets: tuple[Bucket, ...], plan: DeploymentPlan, batching: Batching, cost: CostModel
    ) -> Assignment:
        """Every sequence to one group, in shared micro-batches; c = 1 is plain balanced dispatch.

        Infeasible where a bucket fits no group that can be formed; BadInput where `shards` cannot be.
        """
        if not buckets:
            return Assignment(((),) * len(plan.replicas))
        return self.among(self.candidates(buckets, plan), buckets, plan, batching, cost)

    def among(
        self,
        sizes: Sequence[int],
        buckets: tuple[Bucket, ...],
        plan: DeploymentPlan,
        batching: Batching,
        cost: CostModel,
    ) -> Assignment:
        """The same with one of these group sizes."""
        shards = self._best(sizes, buckets, plan, batching, cost)
        machines = groups_of(plan, shards)
        shares = self.balanced.divide(buckets, machines, batching, cost)
        if shards == 1:
            return Assignment(shares)
        timed = [
            (-microbatch_seconds(microbatch, machine.replica, cost), microbatch)
            for machine, share in zip(machines, shares, strict=True)
            for microbatch in batching.form(share, machine.replica, cost, group=machine.group)
        ]
        timed.sort(key=itemgetter(0))
        return Assignment(((),) * len(plan.replicas), tuple(microbatch for _, microbatch in timed))

    def _best(
        self,
        sizes: Sequence[int],
        buckets: tuple[Bucket, ...],
        plan: DeploymentPlan,
        batching: Batching,
        cost: CostModel,
    ) -> int:
        """The group size whose micro-batches end first, by quick dispatches without kicks."""
        quick = replace(self.balanced, work=0, repair=0)
        best, least = 0, float("inf")
        for shards in sizes:
            machines = groups_of(plan, shards)
            try:
                shares = quick.divide(buckets, machines, batching, cost)
            except Infeasible:
                continue
            except BadInput:  # more shards than the cost model can price, such as more than there are heads
                if self.shards is not None:
                    raise
                continue
            seconds = max(
                work_seconds(batching.form(share, machine.replica, cost, group=machine.group), machine.replica, cost)
                for share, machine in zip(shares, machines, strict=True)
            )
            if seconds < least:
                best, least = shards, seconds
        if not best:
            raise self._infeasible(buckets, plan)
        return best

    def candidates(self, buckets: tuple[Bucket, ...], plan: DeploymentPlan) -> list[int]:
        """Group sizes that divide the number of replicas of every kind and may hold the longest bucket."""
        _, kind = kinds_of([Machine(replica) for replica in plan.replicas])
        sizes = [int((kind == number).sum()) for number in range(int(kind.max()) + 1)]
        common = gcd(*sizes)
        if self.shards is not None:
            if common % self.shards:
                raise BadInput(
                    f"shared groups: shards {self.shards} does not divide {sizes} equal replicas; "
                    f"give a divisor of {common}"
                )
            return [self.shards]
        budget = max(replica.budget for replica in plan.replicas)
        width = max(int(bucket.sequences.length.max()) for bucket in buckets)
        return [size for size in range(1, common + 1) if common % size == 0 and size * budget >= width]

    def _infeasible(self, buckets: tuple[Bucket, ...], plan: DeploymentPlan) -> Infeasible:
        width = max(bucket.width for bucket in buckets)
        budget = max(replica.budget for replica in plan.replicas)
        groups = "any group" if self.shards is None else f"a group of {self.shards}"
        return Infeasible(
            f"shared groups: a bucket of width {width} fits no replicas of {plan.summary()} in {groups}; "
            f"cut longer sequences, or plan replicas with a budget above {budget} tokens or in larger numbers"
        )


def groups_of(plan: DeploymentPlan, shards: int) -> tuple[Machine, ...]:
    """The plan's replicas in groups of this many equal ones; of one node where that is possible, in order of place."""
    if shards == 1:
        return tuple(Machine(replica) for replica in plan.replicas)
    _, kind = kinds_of([Machine(replica) for replica in plan.replicas])
    rooms: dict[tuple[int, int], list[int]] = {}
    for position, replica in enumerate(plan.replicas):
        rooms.setdefault((int(kind[position]), plan.cluster.node_of(replica.gpus[0])), []).append(position)
    groups: list[tuple[int, ...]] = []
    left: dict[int, list[int]] = {}
    for (number, _), members in sorted(rooms.items()):
        whole = len(members) - len(members) % shards
        groups += [tuple(members[start : start + shards]) for start in range(0, whole, shards)]
        left.setdefault(number, []).extend(members[whole:])
    for members in left.values():
        groups += [tuple(members[start : start + shards]) for start in range(0, len(members), shards)]
    return tuple(Machine(plan.replicas[group[0]], group) for group in sorted(groups))
