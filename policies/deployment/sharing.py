"""Kinds whose replicas may share micro-batches: what that makes of prices, and who then holds the longest sequence.

A replica's time goes to what it shares with equal ones and to what it computes alone, one after another (see
`policies.bounds.sharing`). So in the deployment programs a class costs a kind the least over group sizes c of c times
what a member takes, on the same row as everything else of that kind: columns of single sizes would add nothing.

A plan is looked for with groups that `FlexibleGroups` forms freely, of powers of two and without pipelines; `loose`
prices, for bounds, know every size and pipelines, too, without bubbles. What the programs leave out is that c replicas
must be there before c can share: fluids of given counts know it, and plans are played before they are chosen.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from lobra.protocols import Batching, CostModel
from lobra.rates import Loads
from lobra.spec import ClusterSpec
from policies.deployment.classes import Classes, Table, table
from policies.deployment.placement import Kind, most

UNLIMITED = 1 << 31  # sequences "of one micro-batch": the price of a sequence is all there is


def group_sizes(kind: Kind, count: int, groups: int, *, loose: bool = False) -> tuple[int, ...]:
    """Sizes of groups that so many replicas of a kind may form, 1 and up to `groups`; ascending."""
    most_of_all = min(count, groups)
    if loose:
        return tuple(range(1, most_of_all + 1))
    return tuple(1 << power for power in range(most_of_all.bit_length() if kind.config.pp == 1 else min(1, count)))


def needed(kind: Kind, tokens: int, groups: int, *, loose: bool = False) -> float:
    """Replicas of the kind that hold so many tokens together; infinity where no group does."""
    return next((size for size in group_sizes(kind, groups, groups, loose=loose) if size * kind.budget >= tokens), inf)


def group_table(
    classes: Classes,
    kinds: Sequence[Kind],
    batching: Batching,
    cost: CostModel,
    *,
    cluster: ClusterSpec,
    groups: int,
    loose: bool = False,
) -> Table:
    """Prices of all classes on all kinds, each class in the group of at most `groups` replicas that suits it best.

    Prices are seconds of one replica as if it did the work of all; infinity where a class fits no group there is room
    for. With groups of 1, the plain table.
    """
    prices = table(classes, kinds, batching, cost)
    if groups == 1:
        return prices
    each, least, alone = prices.each.copy(), prices.least.copy(), prices.alone.copy()
    size = np.where(np.isfinite(each), 1, 0)
    loads = list(prices.loads)
    for row, kind in enumerate(kinds):
        for number in group_sizes(kind, most(kind.config, cluster), groups, loose=loose)[1:]:
            try:
                shared = table(classes, [kind], batching, cost, number)
            except BadInput:  # the model's heads cannot be shared out to a group of this size
                continue
            size[row] = np.where((size[row] == 0) & np.isfinite(shared.each[0]), number, size[row])
            each[row] = np.minimum(each[row], number * shared.each[0])
            least[row] = np.minimum(least[row], number * shared.least[0])
            alone[row] = np.minimum(alone[row], shared.alone[0])
        if kind.config.pp == 1:
            loads[row] = _additive(loads[row], each[row])
    return replace(prices, loads=tuple(loads), each=each, least=least, alone=alone, size=size)


def _additive(loads: Loads, each: Array) -> Loads:
    """Loads of a replica without a pipeline by which sequences cost these prices, whatever else there is."""
    fits, nothing = np.isfinite(each), np.zeros(len(each))
    return Loads(np.where(fits, UNLIMITED, 0), nothing, np.where(fits, each, 0.0), 0.0, loads.stages)
