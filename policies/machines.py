"""What computes a share, and which of those are alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lobra.batch import Array
from lobra.plan import Replica


@dataclass(frozen=True, slots=True)
class Machine:
    """What computes a share: a replica by itself, or equal replicas together by context parallelism."""

    replica: Replica  # it, or the first of the group
    group: tuple[int, ...] = ()  # positions in the plan of those who compute together; (): it alone

    @property
    def shards(self) -> int:
        """How many replicas compute together."""
        return max(1, len(self.group))


def kinds_of(machines: Sequence[Machine]) -> tuple[tuple[Machine, ...], Array]:
    """One machine of each kind (configuration, budget, cut, shards) in order of appearance, and everyone's kind."""
    numbers: dict[object, int] = {}
    examples: list[Machine] = []
    kind = np.empty(len(machines), dtype=np.int64)
    for position, machine in enumerate(machines):
        replica = machine.replica
        key = (replica.config, replica.budget, replica.layers, machine.shards)
        if key not in numbers:
            numbers[key] = len(examples)
            examples.append(machine)
        kind[position] = numbers[key]
    return tuple(examples), kind
