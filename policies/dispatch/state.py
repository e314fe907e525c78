"""A dispatch in the making: counts of every machine and what they take.

Shapes: R machines, J buckets. Machines are changed two at a time; a journal takes back what did not pay.
"""

from dataclasses import dataclass, field

import numpy as np

from lobra.batch import Array
from policies.dispatch.tables import Tables


@dataclass(slots=True, eq=False)
class State:
    """Counts, and their seconds kept up to date."""

    tables: Tables
    kind: Array  # int64 [R]
    counts: Array  # int64 [R, J]
    total: Array  # float64 [R], seconds without bubbles
    bubble: Array  # float64 [R, J], the bubble that each bucket would cause
    seconds: Array  # float64 [R]
    journal: dict[int, Array] = field(default_factory=dict)  # rows as they were at the last commit

    def move(self, bucket: int, amount: int, giver: int, taker: int, back: tuple[int, int] = (0, 0)) -> None:
        """Hand sequences of a bucket from one machine to another, and some of another bucket back: (bucket, amount)."""
        self._remember([giver, taker])
        for (column, number), sign in (((bucket, amount), 1), (back, -1)):
            self.counts[giver, column] -= sign * number
            self.counts[taker, column] += sign * number
        self._refresh([giver, taker])

    def exchange(self, givers: Array, takers: Array, given: tuple[Array, Array], back: tuple[Array, Array]) -> None:
        """Chunks (buckets, amounts) change places in many pairs at once, no machine in two of them."""
        machines = np.concatenate([givers, takers]).tolist()
        self._remember(machines)
        for (bucket, amount), sign in ((given, 1), (back, -1)):
            self.counts[givers, bucket] -= sign * amount
            self.counts[takers, bucket] += sign * amount
        self._refresh(machines)

    def set_rows(self, machines: list[int], counts: Array) -> None:
        """Give machines new counts, int64 [n, J]; the sums over machines are the caller's affair."""
        self._remember(machines)
        self.counts[machines] = counts
        self._refresh(machines)

    def commit(self) -> None:
        """From here on, this is what is gone back to."""
        self.journal.clear()

    def revert(self) -> None:
        """As it was at the last commit."""
        for machine, row in self.journal.items():
            self.counts[machine] = row
        if self.journal:
            self._refresh(list(self.journal))
        self.journal.clear()

    def _remember(self, machines: list[int]) -> None:
        for machine in machines:
            if machine not in self.journal:
                self.journal[machine] = self.counts[machine].copy()

    def _refresh(self, machines: list[int]) -> None:
        total, bubble, seconds = priced(self.tables, self.kind[machines], self.counts[machines])
        self.total[machines], self.seconds[machines] = total, seconds
        if bubble is not None:
            self.bubble[machines] = bubble

    @property
    def makespan(self) -> float:
        """Seconds of the slowest machine."""
        return float(self.seconds.max())


def state_of(tables: Tables, kind: Array, counts: Array) -> State:
    """The state of these counts [R, J]."""
    total, bubble, seconds = priced(tables, kind, counts)
    return State(tables, kind, counts.copy(), total, np.zeros(counts.shape) if bubble is None else bubble, seconds)


def priced(tables: Tables, kind: Array, counts: Array) -> tuple[Array, Array | None, Array]:
    """Totals [n], bubbles [n, J] (None where no kind has any) and seconds [n] of counts [n, J] on machines of kinds."""
    columns, row = tables.offset + counts, kind[:, None]
    total = tables.total[row, columns].sum(axis=1)
    seconds = total + tables.constant[kind] * (total > 0)
    if not tables.pipelined:
        return total, None, seconds
    bubble = tables.bubble[row, columns]
    return total, bubble, seconds + bubble.max(axis=1)
