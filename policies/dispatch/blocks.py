"""Blocks: nested groups of equal replicas that may compute a micro-batch together, in one node where they fit in one.

The equal replicas of a node are cut into aligned blocks of powers of two; a block's halves are blocks, too, down to
single replicas. Blocks of equal size on different nodes join only to groups that no node could hold. So two blocks are
nested or apart, and where every replica runs what it shares from the largest block to the smallest, all members of a
block have done the same before: nobody waits for anybody, and a replica's seconds are the sum over the blocks it is in.

Only replicas without a pipeline share: the fluid that deals to blocks knows no bubbles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array
from lobra.plan import DeploymentPlan
from policies.machines import Machine, kinds_of

Members = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Where work can go: blocks, the largest first, then every replica alone. S slots, R replicas."""

    machines: tuple[Machine, ...]  # [S]
    members: tuple[Members, ...]  # [S], positions in the plan
    kind: Array  # int64 [S]
    size: Array  # int64 [S], members
    above: tuple[Members, ...]  # [R], the slots that a replica is in, the largest first; it alone last

    def seconds(self, of_slots: Array) -> Array:
        """Seconds of every replica, float64 [R], from those of every slot [S]."""
        return np.array([of_slots[list(slots)].sum() for slots in self.above])


def slots_of(plan: DeploymentPlan, largest: int | None = None) -> Slots:
    """The blocks of at most `largest` replicas, and every replica."""
    examples, kind = kinds_of([Machine(replica) for replica in plan.replicas])
    largest = largest if largest is not None else len(plan.replicas)
    blocks: list[Members] = []
    for number, example in enumerate(examples):
        if example.replica.config.pp == 1:
            positions = np.flatnonzero(kind == number).tolist()
            blocks += [block for top in _tops(plan, positions) for block in _nested(top) if 1 < len(block) <= largest]
    blocks.sort(key=lambda block: (-len(block), block))
    members = (*blocks, *((replica,) for replica in range(len(plan.replicas))))
    above: list[list[int]] = [[] for _ in plan.replicas]
    for slot, block in enumerate(members):
        for replica in block:
            above[replica].append(slot)
    return Slots(
        tuple(Machine(plan.replicas[block[0]], block if len(block) > 1 else ()) for block in members),
        members,
        np.array([kind[block[0]] for block in members]),
        np.array([len(block) for block in members]),
        tuple(map(tuple, above)),
    )


def _tops(plan: DeploymentPlan, positions: Sequence[int]) -> Iterator[Members]:
    """The largest blocks of equal replicas, which hold all others; no replica in two."""
    rooms: dict[int, list[int]] = {}
    for position in positions:
        rooms.setdefault(plan.cluster.node_of(plan.replicas[position].gpus[0]), []).append(position)
    by_size: dict[int, list[Members]] = {}
    for room in rooms.values():
        for block in _powers(room):
            by_size.setdefault(len(block), []).append(block)
    gpus, node = plan.replicas[positions[0]].config.gpus, min(plan.cluster.sizes)
    size = 1
    while by_size:
        blocks = by_size.pop(size, [])
        pairs = len(blocks) // 2 if 2 * size * gpus > node else 0
        for pair in range(pairs):
            by_size.setdefault(2 * size, []).append(blocks[2 * pair] + blocks[2 * pair + 1])
        yield from blocks[2 * pairs :]
        size *= 2


def _powers(room: Sequence[int]) -> Iterator[Members]:
    """The room in blocks of powers of two, the largest first."""
    start = 0
    for power in reversed(range(len(room).bit_length())):
        if len(room) >> power & 1:
            yield tuple(room[start : start + (1 << power)])
            start += 1 << power


def _nested(block: Members) -> Iterator[Members]:
    """The block, its halves, their halves, ..."""
    yield block
    if len(block) > 1:
        half = len(block) // 2
        yield from _nested(block[:half])
        yield from _nested(block[half:])
