"""Dealing sequences out: quotas of kinds to the replicas of each, costliest first."""

import heapq
from operator import itemgetter

import numpy as np

from lobra.batch import Array
from policies.batching.pack_estimate import in_company
from policies.batching.pack_prices import PackPrices
from policies.dispatch.packed_shares import exchanged

MANY = 16  # machines from which on rounds are faster than one by one
LEVELLING = 4  # rounds' worth of the smallest costs that are dealt one by one
EVEN = 1e-3  # of a replica's seconds: smaller differences are left


def kinds_by_quota(quotas: Array) -> Array:
    """The kind of each sequence, int64 [n], where kind k takes quotas[k, j] of class j; [K, J], classes ascending.

    Sequences stand longest class first. Inside a class, every kind takes its part evenly over the lengths.
    """
    counts = quotas.sum(axis=0)[::-1]
    kinds = np.empty(int(counts.sum()), dtype=np.int64)
    ends = np.cumsum(counts).tolist()
    for start, end, column in zip([0, *ends[:-1]], ends, quotas.T[::-1], strict=True):
        takers = np.flatnonzero(column)
        if len(takers) == 1:
            kinds[start:end] = takers[0]
        elif len(takers):
            turns = np.concatenate([(np.arange(column[taker]) + 0.5) / column[taker] for taker in takers])
            kinds[start:end] = np.repeat(takers, column[takers])[np.argsort(turns, kind="stable")]
    return kinds


def dealt(lengths: Array, kinds: Array, kind: Array, prices: tuple[PackPrices, ...]) -> list[Array]:
    """Positions of every replica's sequences, ascending, for sequences [n] of `kinds` and replicas of `kind` [R]."""
    held: list[Array] = [np.zeros(0, dtype=np.int64)] * len(kind)
    for number, of_kind in enumerate(prices):
        members, taken = np.flatnonzero(kind == number), np.flatnonzero(kinds == number)
        if not len(members) or not len(taken):
            continue
        costs = in_company(lengths[taken], of_kind)
        owner = longest_first(costs, len(members))
        ends = np.cumsum(np.bincount(owner, minlength=len(members)))[:-1]
        parts = np.split(np.argsort(owner.astype(np.min_scalar_type(len(members))), kind="stable"), ends)
        _even_pairs(parts, costs)
        for member, part in zip(members.tolist(), parts, strict=True):
            held[member] = taken[part]
    return held


def _even_pairs(parts: list[Array], costs: Array) -> None:
    """Swap or move one sequence between the machine with most and that with least to do, the second of both, and so on.

    parts: positions in `costs`, ascending, of each machine; costs, descending.
    """
    loads = np.array([costs[part].sum() for part in parts])
    order = np.argsort(loads, kind="stable").tolist()
    for low, high in zip(order[: len(order) // 2], reversed(order), strict=False):
        half = (loads[high] - loads[low]) / 2
        if half < EVEN * loads[high]:
            return
        gone, back = _halving(parts[high], parts[low], costs, half)
        if gone:
            parts[high], parts[low] = exchanged(parts[high], gone, back), exchanged(parts[low], back, gone)


def _halving(mine: Array, theirs: Array, costs: Array, half: float) -> tuple[list[int], list[int]]:
    """The one to give and the one to get back, or none, whose costs differ by nearly `half`; none if none helps."""
    if not len(mine):
        return [], []
    offered = np.concatenate([[0.0], costs[theirs][::-1], [np.inf]])  # ascending, nothing first
    wanted = costs[mine] - half
    after = np.maximum(np.searchsorted(offered, wanted), 1)
    nearest = np.where(wanted - offered[after - 1] <= offered[after] - wanted, after - 1, after)
    missed = np.abs(wanted - offered[nearest])
    best = int(missed.argmin())
    if missed[best] >= half * (1 - 1e-6):
        return [], []
    back = [int(theirs[len(theirs) - nearest[best]])] if nearest[best] else []
    return [int(mine[best])], back


def longest_first(costs: Array, machines: int) -> Array:
    """The machine of each of these costs, descending, so that loads are alike; int64 [n].

    One by one to the least loaded (Graham 1969), a third of a microsecond each. Where there are many machines, the
    middle of the costs is dealt in rounds, one to every machine, the greatest to the least loaded: the greatest third
    has levelled the loads by then, and the smallest level them again.
    """
    rounds = max(0, len(costs) * 2 // 3 // machines - LEVELLING) if machines >= MANY else 0
    begin = max(0, len(costs) - (rounds + LEVELLING) * machines)
    end = begin + rounds * machines
    owner, loads = np.empty(len(costs), dtype=np.int64), np.zeros(machines)
    owner[:begin], loads = _one_by_one(costs[:begin], loads)
    for start in range(begin, end, machines):
        takers = np.argsort(loads, kind="stable")
        owner[start : start + machines] = takers
        loads[takers] += costs[start : start + machines]
    owner[end:], _ = _one_by_one(costs[end:], loads)
    return owner


def _one_by_one(costs: Array, loads: Array) -> tuple[list[int], Array]:
    """The machines that get these, each the least loaded by then, and the loads after that."""
    heap = list(zip(loads.tolist(), range(len(loads)), strict=True))
    heapq.heapify(heap)
    owner = []
    for cost in costs.tolist():
        load, machine = heap[0]
        owner.append(machine)
        heapq.heapreplace(heap, (load + cost, machine))
    return owner, np.array([load for load, _ in sorted(heap, key=itemgetter(1))])
