"""Where buckets end: a list fixed beforehand, or the best boundaries for the batch at hand.

Fixed lists are what the paper's baselines pad to; they know neither the batch nor the plan. Dynamic boundaries are the
paper's per-step bucketing (Eq. 4): at most `number` multiples of `step`, chosen exactly so that padded tokens are
fewest. Limits: padded tokens are all it looks at. A boundary just above a replica's budget takes that replica away from
the sequences below it, and every further boundary can add a fragment to every replica's work; neither is weighed here.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from policies.batching.buckets import candidates
from policies.batching.partition import choose_boundaries

# The authors' lists: 7 and 16 widths for steps, and the 16 with which they plan where bucketing is static.
SEVEN = (256, 512, 1024, 2048, 4096, 8192, 16384)
SIXTEEN = (144, 256, 304, 512, 640, 800, 1024, 1216, 1504, 1888, 2656, 4096, 4256, 5840, 8192, 16384)
PLANNING = (256, 512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288, 16384)


class Boundaries(Protocol):
    """A rule that says where buckets end."""

    def boundaries(self, lengths: Array, counts: Array, budgets: Array) -> Array:
        """Ascending bucket widths in tokens, the last at least the longest length.

        lengths [U]: distinct, ascending, at least one; counts [U]: how many of each (or their probabilities), above 0;
        budgets [K]: distinct, ascending, tokens that micro-batches of the plan's replicas may hold.
        """


@dataclass(frozen=True, slots=True)
class FixedBuckets:
    """The same widths in every step.

    The list is extended by the longest length where that exceeds it, and by the plan's largest budget where a wider
    bucket would make sequences unplaceable that fit. Otherwise the list is taken as it is, as the paper's baselines do:
    a boundary that is not a budget can keep sequences from replicas that would hold them, at a high price. `align`
    adds every budget of the plan to the list and so removes that handicap.
    """

    widths: tuple[int, ...] = SEVEN
    align: bool = False

    def __post_init__(self) -> None:
        widths = self.widths
        if not widths or widths[0] < 1 or list(widths) != sorted(set(widths)):
            raise BadInput(f"fixed buckets: widths is {widths}; give token counts above 0, ascending, each once")

    def boundaries(self, lengths: Array, counts: Array, budgets: Array) -> Array:
        """The list, extended where the batch or the plan asks for it."""
        del counts
        longest = max(int(lengths[-1]), self.widths[-1])
        added = budgets if self.align else budgets[-1:]
        extended: Array = np.unique([*self.widths, longest, *added[added < longest]])
        return extended


@dataclass(frozen=True, slots=True)
class DynamicBuckets:
    """The boundaries, at most `number` multiples of `step`, with the fewest padded tokens for these lengths.

    A multiple that would exceed the smallest budget holding a length is lowered to that budget.
    """

    number: int = 16
    step: int = 16

    def __post_init__(self) -> None:
        if self.number < 1 or self.step < 1:
            raise BadInput(f"dynamic buckets: number {self.number} and step {self.step} must be at least 1")

    def boundaries(self, lengths: Array, counts: Array, budgets: Array) -> Array:
        """The exact optimum by dynamic programming; each of its buckets holds a sequence."""
        return choose_boundaries(*candidates(lengths, counts, self.step, budgets), self.number)
